"""The page of widgets in JupyterLab."""
from typing import Any

import lazy_loader

from ..core.core import need_lab

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    try: return _load(name)
    except ModuleNotFoundError:
        need_lab('the workbench', 'JupyterLab', 'jupyterlab', 'ipywidgets', 'ipykernel')
        raise
