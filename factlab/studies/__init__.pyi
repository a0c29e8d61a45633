from .base import Settings as Settings
