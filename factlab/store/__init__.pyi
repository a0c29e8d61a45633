from .answers import Row as Row
from .answers import Store as Store
from .answers import StoreChoice as StoreChoice
from .cached import from_store as from_store
from .cached import open_store as open_store
from .cached import vectors_from_store as vectors_from_store
from .file import DamagedStoreError as DamagedStoreError
