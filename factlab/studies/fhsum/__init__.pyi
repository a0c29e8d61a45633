from .cases import case_cells as case_cells
from .cases import error_causes as error_causes
from .categories import category_cells as category_cells
from .labels import label_cells as label_cells
