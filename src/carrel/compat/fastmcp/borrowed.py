"""Modules of the installed package ``fastmcp`` that run on Carrel: helpers, which only use the public interface."""

from __future__ import annotations

from importlib.machinery import PathFinder
from pathlib import Path

__all__ = ["installed_folders"]


def installed_folders(package: str) -> list[str]:
    """Return the folders of a package within the installed ``fastmcp``, which is not imported.

    A package of the mirror that has them at the end of its ``__path__`` finds its own modules first.
    """
    spec = PathFinder.find_spec("fastmcp")
    found = (Path(folder, *package.split(".")) for folder in (spec and spec.submodule_search_locations) or ())
    return [str(folder) for folder in found if folder.is_dir()]
