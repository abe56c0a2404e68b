"""Check of the values in URIs of templates."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from carrel.compat.mcp2.shared.path_security import contains_path_traversal, is_absolute_path

__all__ = ["DEFAULT_RESOURCE_SECURITY", "ResourceSecurity", "ResourceSecurityError"]


@dataclass(frozen=True)
class ResourceSecurity:
    """Which values of a template are refused."""

    reject_path_traversal: bool = True
    reject_absolute_paths: bool = True
    reject_null_bytes: bool = True
    exempt_params: Set[str] = field(default_factory=frozenset)

    def validate(self, params: Mapping[str, str | list[str]]) -> str | None:
        """Return the name of the first parameter with a refused value; None without one."""
        for name, given in params.items():
            values = given if isinstance(given, list) else [given]
            if name not in self.exempt_params and any(map(self._refuses, values)):
                return name
        return None

    def _refuses(self, value: str) -> bool:
        return (
            (self.reject_null_bytes and "\0" in value)
            or (self.reject_path_traversal and contains_path_traversal(value))
            or (self.reject_absolute_paths and is_absolute_path(value))
        )


DEFAULT_RESOURCE_SECURITY = ResourceSecurity()


class ResourceSecurityError(ValueError):
    """A value of a template was refused."""

    def __init__(self, template: str, param: str) -> None:
        super().__init__(f"Parameter {param!r} of template {template!r} failed security validation")
        self.template = template
        self.param = param
