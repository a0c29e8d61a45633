"""Cells, tables, charts, and papermill over the papers’ notebooks."""
import lazy_loader

from .. import grounding, localization, retrieval, verification  # noqa: F401  whose names exhibits take

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
