from .consistency import consistency_cells as consistency_cells
from .consistency import consistency_plan as consistency_plan
from .localization import localization_cells as localization_cells
from .study import METHODS as METHODS
from .study import Settings as Settings
from .study import localization_plan as localization_plan
