from .leaderboard import leaderboard_cells as leaderboard_cells
from .leaderboard import rank_grid as rank_grid
from .self_preference import preference_cells as preference_cells
from .study import board_of as board_of
from .study import judgements as judgements
from .study import leaderboard_plan as leaderboard_plan
from .study import planted_order as planted_order
from .study import scores_of as scores_of
