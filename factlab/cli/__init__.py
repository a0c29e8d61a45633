"""The command `factlab`."""
from .. import data, grounding, localization, models, retrieval, verification  # noqa: F401  whose names it lists
