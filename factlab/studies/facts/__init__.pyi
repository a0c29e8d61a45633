from .leaderboard import leaderboard_cells as leaderboard_cells
from .leaderboard import rank_grid as rank_grid
from .self_preference import preference_cells as preference_cells
