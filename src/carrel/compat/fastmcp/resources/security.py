"""Checks of the variables of resource templates: path traversal, absolute paths and null bytes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from dataclasses import dataclass, field

__all__ = ["DEFAULT_RESOURCE_SECURITY", "ResourceSecurity"]

_ABSOLUTE = re.compile(r"[/\\]|[A-Za-z]:")
_SEPARATORS = re.compile(r"[/\\]")


@dataclass(frozen=True)
class ResourceSecurity:
    """Checks of template variables. Variables in ``exempt_params`` are not checked."""

    reject_path_traversal: bool = True
    reject_absolute_paths: bool = True
    reject_null_bytes: bool = True
    exempt_params: Set[str] = field(default_factory=frozenset)

    def validate(self, params: Mapping[str, object]) -> str | None:
        """Return the name of a variable with a rejected value, or None."""
        exempt = {name.replace("-", "_") for name in self.exempt_params}
        for name, value in params.items():
            values = value if isinstance(value, list | tuple) else [value]
            if name.replace("-", "_") not in exempt and any(
                isinstance(each, str) and self._rejects(each) for each in values
            ):
                return name
        return None

    def _rejects(self, value: str) -> bool:
        return (
            (self.reject_null_bytes and "\0" in value)
            or (self.reject_path_traversal and ".." in _SEPARATORS.split(value))
            or (self.reject_absolute_paths and _ABSOLUTE.match(value) is not None)
        )


DEFAULT_RESOURCE_SECURITY = ResourceSecurity()
