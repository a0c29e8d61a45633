"""The command `factlab`."""
from .. import models, verification  # noqa: F401  whose names it lists
