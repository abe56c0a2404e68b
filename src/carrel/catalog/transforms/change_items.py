"""Transform that changes the details of tools, prompts, resources and templates in lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from carrel.catalog.provider import Provider
from carrel.catalog.transforms.transform import ItemT, Kind, Transform
from carrel.wire.prompts import Prompt
from carrel.wire.resources import Resource, ResourceTemplate
from carrel.wire.tools import Tool

__all__ = ["ChangeItems"]


class ChangeItems(Transform):
    """Transform that changes details in lists: titles, descriptions, icons, annotations, input schemas, ``meta``.

        ChangeItems(provider, tools=lambda tool: msgspec.structs.replace(tool, description="…"))

    Each function gets an item of the provider, and returns the item to list. Names and URIs stay the same: ``Rename``
    and ``Namespace`` change them. Calls go to the provider unchanged, which also checks their arguments.
    """

    def __init__(
        self,
        provider: Provider,
        *,
        tools: Callable[[Tool], Tool] | None = None,
        prompts: Callable[[Prompt], Prompt] | None = None,
        resources: Callable[[Resource], Resource] | None = None,
        templates: Callable[[ResourceTemplate], ResourceTemplate] | None = None,
    ) -> None:
        super().__init__(provider)
        given = {"tool": tools, "prompt": prompts, "resource": resources, "template": templates}
        self._changes: Mapping[str, Callable[[Any], Any]] = {kind: each for kind, each in given.items() if each}

    def change_item(self, kind: Kind, item: ItemT) -> ItemT:
        """Return the item as its function has changed it."""
        change: Callable[[ItemT], ItemT] | None = self._changes.get(kind)
        return item if change is None else change(item)
