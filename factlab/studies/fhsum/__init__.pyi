from .categories import category_cells as category_cells
from .labels import label_cells as label_cells
