"""Names of a package that are imported on first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["lazily"]


def lazily(package: str, names: Mapping[str, str], instead: Mapping[str, str] | None = None) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package; ``names`` has the module of each name, within the package or whole.

    ``instead`` are names that are not mirrored, and what to use in their place.
    """
    missing = instead or {}

    def find(name: str) -> Any:
        module = names.get(name)
        if name in missing:
            raise ImportError(f"{name} is not mirrored by {package}: {missing[name]}", name=name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = import_module(module if module.startswith("carrel.") else f"{package}.{module}")
        return found if module == name else getattr(found, name)

    return find
