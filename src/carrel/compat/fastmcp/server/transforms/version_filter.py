"""Version filter: shows the components of some versions only."""

from __future__ import annotations

from typing import Any

from carrel.compat.fastmcp.server.transforms.transform import ComponentTransform
from carrel.compat.fastmcp.utilities.versions import VersionSpec

__all__ = ["VersionFilter"]


class VersionFilter(ComponentTransform):
    """Transform that hides components outside of a range of versions.

    Raises:
        ValueError: the range has no limit.
    """

    def __init__(
        self, *, version_gte: str | None = None, version_lt: str | None = None, include_unversioned: bool = True
    ) -> None:
        if version_gte is None and version_lt is None:
            raise ValueError("At least one of version_gte or version_lt must be specified")
        self.version_gte, self.version_lt, self.include_unversioned = version_gte, version_lt, include_unversioned
        self._range = VersionSpec(version_gte, version_lt)

    def __repr__(self) -> str:
        limits = {"version_gte": self.version_gte, "version_lt": self.version_lt}
        parts = [f"{name}={value!r}" for name, value in limits.items() if value]
        return (
            f"VersionFilter({', '.join(parts + ([] if self.include_unversioned else ['include_unversioned=False']))})"
        )

    def change(self, component: Any) -> Any:
        """Return a component, or None if its version is outside of the range."""
        return component if self._range.matches(component.version, match_none=self.include_unversioned) else None

    def versions(self, version: VersionSpec | None) -> VersionSpec:
        """Return the requested versions within the range."""
        return self._range.intersect(version)
