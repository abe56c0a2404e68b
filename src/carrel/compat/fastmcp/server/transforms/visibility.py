"""Visibility: marks components as shown or hidden, of which servers leave the hidden ones out."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypeVar

from carrel.compat.fastmcp.server.transforms.transform import ComponentTransform
from carrel.compat.fastmcp.utilities.components import with_visibility
from carrel.compat.fastmcp.utilities.versions import VersionSpec

__all__ = ["Visibility", "is_enabled"]

C = TypeVar("C", bound=Any)
KINDS = {"template": "template", "resource_template": "template"}


def _set(given: Collection[str] | str | None) -> set[str] | None:
    return {given} if isinstance(given, str) else set(given) if given else None


class Visibility(ComponentTransform):
    """Transform that shows or hides the components that fit everything that is given, or all of them."""

    def __init__(
        self,
        enabled: bool,
        *,
        names: Collection[str] | None = None,
        keys: Collection[str] | None = None,
        version: VersionSpec | None = None,
        tags: Collection[str] | None = None,
        components: Collection[str] | None = None,
        match_all: bool = False,
    ) -> None:
        self._enabled = enabled
        self.names, self.keys, self.version, self.tags = _set(names), _set(keys), version, _set(tags)
        self.components, self.match_all = _set(components), match_all

    def __repr__(self) -> str:
        if self.match_all:
            return f"Visibility({self._enabled}, match_all=True)"
        given = {key: getattr(self, key) for key in ("names", "keys", "version", "components", "tags")}
        parts = [f"{key}={value!r}" for key, value in given.items() if value]
        return f"Visibility({', '.join(['enable' if self._enabled else 'disable', *parts])})"

    def _matches(self, component: Any) -> bool:
        if self.match_all:
            return True
        wanted = (self.names, self.keys, self.version, self.tags, self.components)
        if all(each is None for each in wanted):
            return False
        kind = component.KEY_PREFIX or component.key.partition(":")[0]
        return (
            (self.components is None or kind in {KINDS.get(each, each) for each in self.components})
            and (self.keys is None or component.key in self.keys)
            and (self.names is None or bool(self.names & {component.name, component.identifier}))
            and (self.version is None or self.version.matches(component.version, match_none=False))
            and (self.tags is None or bool(self.tags & component.tags))
        )

    def change(self, component: C) -> C:
        """Return a component with the mark, if it fits."""
        if not self._matches(component):
            return component
        meta = with_visibility(component.meta, self._enabled)
        return component.model_copy(update={"meta": meta})  # type: ignore[no-any-return]

    _mark_component = change


def is_enabled(component: Any) -> bool:
    """Return whether a component is shown, by its mark."""
    return bool(component.enabled)
