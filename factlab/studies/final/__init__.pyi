from .consistency import consistency_cells as consistency_cells
from .localization import localization_cells as localization_cells
from .study import METHODS as METHODS
from .study import Study as Study
from .study import matches as matches
from .study import localization_plan as localization_plan
from .study import predictions as predictions
from .study import select_variant as select_variant
