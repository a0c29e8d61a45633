from .base import Study as Study
