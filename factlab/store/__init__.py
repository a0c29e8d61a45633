"""Answers kept: every one that was paid for, on disk, once."""
import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
