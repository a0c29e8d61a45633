"""One sub-package for each paper: its experiments as plans, and what it brings."""
import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
