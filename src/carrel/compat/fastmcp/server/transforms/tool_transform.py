"""Changes of tools by name: other names, descriptions or arguments."""

from __future__ import annotations

from typing import Any

from carrel.compat.fastmcp.server.transforms.transform import GetToolNext, Transform
from carrel.compat.fastmcp.tools.tool_transform import ToolTransformConfig
from carrel.compat.fastmcp.utilities.versions import VersionSpec

__all__ = ["ToolTransform"]


class ToolTransform(Transform):
    """Transform that changes some tools.

    Raises:
        ValueError: two tools would have the same name.
    """

    def __init__(self, transforms: dict[str, ToolTransformConfig]) -> None:
        self._transforms = transforms
        self._original: dict[str, str] = {}
        for name, change in transforms.items():
            new = change.name or name
            other = self._original.setdefault(new, name)
            if other != name:
                raise ValueError(
                    f"ToolTransform has duplicate target name {new!r}: both {other!r} and {name!r} map to it"
                )

    def __repr__(self) -> str:
        names = list(self._transforms)
        more = f"... +{len(names) - 3} more" if len(names) > 3 else ""
        return f"ToolTransform({names[:3]!r}{more})"

    async def list_tools(self, tools: Any) -> Any:
        """Return the tools after the changes."""
        return [self._transforms[each.name].apply(each) if each.name in self._transforms else each for each in tools]

    async def get_tool(self, name: str, call_next: GetToolNext, *, version: VersionSpec | None = None) -> Any:
        """Return the tool that has a name after the changes, or None."""
        original = self._original.get(name, name)
        found = await call_next(original, version=version)
        if found is not None and original in self._transforms:
            found = self._transforms[original].apply(found)
        return found if found is not None and found.name == name else None
