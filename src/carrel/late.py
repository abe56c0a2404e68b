"""Lazy imports: modules that are imported when one of their names is first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["is_instance", "late"]


def late(package: str, modules: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package; ``modules`` has the names that each module defines."""
    module_of = {name: module for module, names in modules.items() for name in names}

    def find(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(module_of[name]), name)
        setattr(sys.modules[package], name, found)
        return found

    return find


def is_instance(value: object, module: str, name: str) -> bool:
    """Return whether a value is an instance of a class, without importing the class's module.

    While another thread imports the module, it is in ``sys.modules`` without the class.
    """
    found = getattr(sys.modules.get(module), name, None)
    return found is not None and isinstance(value, found)
