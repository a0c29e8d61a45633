from .leaderboard import leaderboard_cells as leaderboard_cells
from .leaderboard import rank_grid as rank_grid
from .self_preference import preference_cells as preference_cells
from .study import FactsStudy as FactsStudy
from .study import planted_order as planted_order
from .study import study_leaderboard as study_leaderboard
from .study import study_scores as study_scores
