"""Files of modules, found without importing the modules or their packages."""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from pathlib import Path

__all__ = ["find_module_file"]


def find_module_file(name: str, of_package: str = "__main__.py") -> Path | None:
    """Return the file of a module that Python finds from the current folder, or None.

    ``of_package`` is the file of a package: the file that ``python -m`` runs, or ``__init__.py``.
    """
    paths: list[str] | None = [str(Path.cwd()), *sys.path]
    origin: str | None = None
    parts = name.split(".")
    for number in range(1, len(parts) + 1):
        spec = PathFinder.find_spec(".".join(parts[:number]), paths)
        if spec is None:
            return None
        origin, locations = spec.origin, spec.submodule_search_locations
        paths = None if locations is None else list(locations)
    if paths is not None:
        return Path(paths[0]) / of_package
    return None if origin is None else Path(origin)
