"""Transform that shows a part of a provider."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, TypeAlias

from carrel.awaitables import MaybeAwaitable, resolved
from carrel.catalog.paging import all_of
from carrel.catalog.provider import ListChanges, Provider, Request
from carrel.catalog.transforms.transform import Kind, Transform
from carrel.protocol.methods import LIST_NOTIFICATIONS, RequestType
from carrel.uri.template import UriTemplate
from carrel.wire.base import TAGS
from carrel.wire.completion import PromptReference, ResourceTemplateReference
from carrel.wire.prompts import Prompt
from carrel.wire.resources import Resource, ResourceTemplate
from carrel.wire.tools import Tool

if TYPE_CHECKING:
    from carrel.wire.skills import Skill

__all__ = ["Filter"]

#: Keys of ``_meta`` under which FastMCP lists tags, in an object: 3.x and 2.x.
FASTMCP = ("fastmcp", "_fastmcp")

Item: TypeAlias = Resource | ResourceTemplate | Tool | Prompt
Which: TypeAlias = Iterable[str] | Callable[[str], bool]
"""Names or URIs: patterns, in which ``*`` matches any text, or a function."""


class Filter(Transform):
    """Transform that shows a part of a provider: tools, prompts and resources with certain names and URIs.

    Each argument is a list of patterns, in which ``*`` matches any text, or a function of the name or URI; None shows
    all. Hidden items cannot be called or read either. Templates are matched as text.

    With ``tags``, only entries with one of these tags in their ``_meta`` are shown, as Carrel and FastMCP write tags. A
    resource of a template has the tags of the template. Tags come from the lists, so unlisted items are hidden; skills
    have no tags.
    """

    def __init__(
        self,
        provider: Provider,
        *,
        tools: Which | None = None,
        prompts: Which | None = None,
        resources: Which | None = None,
        tags: Iterable[str] | None = None,
    ) -> None:
        super().__init__(provider)
        self._tags = None if tags is None else frozenset((tags,) if isinstance(tags, str) else tags)
        self._tagged: dict[Kind, dict[str, bool]] = {"tool": {}, "prompt": {}, "resource": {}, "template": {}}
        """Whether an entry has one of the tags, by name, URI or template, as far as lists have been read."""
        self._names = {"tool": _predicate(tools), "prompt": _predicate(prompts)}
        self._uris = _predicate(resources)

    def keeps(self, kind: Kind, item: Item | Skill) -> bool:
        """Return whether an entry is shown."""
        if self._tags is not None:
            if not isinstance(item, Item):
                return False
            self._note(kind, item)
        if isinstance(item, Tool | Prompt):
            return self.keeps_name(kind, item.name)
        uri = _key_of(item) if isinstance(item, Item) else item.uri
        return self._uris(uri) and (self._tags is None or self._tagged[kind].get(uri, False))

    def keeps_uri(self, uri: str) -> bool:
        """Return whether the resource of a URI may be read."""
        return self._uris(uri) and (self._tags is None or self._has_tag(uri))

    def keeps_name(self, kind: Kind, name: str) -> bool:
        """Return whether a tool or prompt may be used."""
        return self._names[kind](name) and (self._tags is None or self._tagged[kind].get(name, False))

    def keeps_template(self, uri_template: str) -> bool:
        """Return whether variables of a resource template may be completed."""
        return self._uris(uri_template) and (self._tags is None or self._tagged["template"].get(uri_template, False))

    # Tags

    @property
    def tool_names(self) -> Container[str] | None:  # type: ignore[override]
        """Names of its tools, if they are kept up to date; with tags, lists have to be read."""
        return super().tool_names if self._tags is None else None

    @property
    def prompt_names(self) -> Container[str] | None:  # type: ignore[override]
        """Names of its prompts, if they are kept up to date; with tags, lists have to be read."""
        return super().prompt_names if self._tags is None else None

    def changed_lists(self, lists: ListChanges) -> ListChanges:
        """Return lists that have changed as they are seen from outside; with tags, which entries is not known."""
        if self._tags is None:
            return super().changed_lists(lists)
        for name in lists:
            for kind in LIST_NOTIFICATIONS[name].items:
                self._tagged.get(kind, {}).clear()
        return dict.fromkeys(lists)

    def _note(self, kind: Kind, item: Item) -> None:
        assert self._tags is not None
        self._tagged[kind][_key_of(item)] = not self._tags.isdisjoint(tags_in(item.meta))

    def _has_tag(self, uri: str) -> bool:
        known = self._tagged["resource"].get(uri)
        if known is not None:
            return known
        return any(has and UriTemplate(each).match(uri) is not None for each, has in self._tagged["template"].items())

    async def _learn(self, kind: Kind, key: str, request: Request) -> None:
        """Read the lists that say what tags an entry has, unless that is known."""
        if self._tags is None or key in self._tagged[kind]:
            return
        inner = self._inner(request)
        if kind == "tool":
            async for tool in all_of(self.provider.list_tools, inner):
                self._note("tool", tool)
        elif kind == "prompt":
            async for prompt in all_of(self.provider.list_prompts, inner):
                self._note("prompt", prompt)
        elif not self._has_tag(key):
            async for resource in all_of(self.provider.list_resources, inner):
                self._note("resource", resource)
            async for template in all_of(self.provider.list_templates, inner):
                self._note("template", template)

    def forward(self, row: RequestType, request: Request, *arguments: Any) -> MaybeAwaitable[Any]:
        """Pass a request on, after the lists that show whether its target has one of the tags have been read."""
        if self._tags is None or not arguments or row.item == "skill":
            return super().forward(row, request, *arguments)
        return self._forward_tagged(row, request, *arguments)

    async def _forward_tagged(self, row: RequestType, request: Request, target: Any, *arguments: Any) -> Any:
        if isinstance(target, PromptReference):
            await self._learn("prompt", target.name, request)
        elif isinstance(target, ResourceTemplateReference):
            await self._learn("resource", target.uri, request)
        elif row.item is not None:
            await self._learn(row.item, target, request)
        return await resolved(super().forward(row, request, target, *arguments))

    async def shows(self, uri: str, request: Request) -> bool:
        """Return whether a URI leads to nothing hidden from the caller."""
        await self._learn("resource", uri, request)
        return await super().shows(uri, request)

    async def accepts(self, uri: str, request: Request) -> bool:
        """Return whether a caller may subscribe to a URI."""
        await self._learn("resource", uri, request)
        return await super().accepts(uri, request)


def tags_in(meta: Mapping[str, Any] | None) -> set[str]:
    """Return the tags in ``_meta``, as Carrel and FastMCP write them."""
    if not meta:
        return set()
    found = [meta.get(TAGS)]
    found += [inner.get("tags") for key in FASTMCP if isinstance(inner := meta.get(key), Mapping)]
    return {tag for tags in found if isinstance(tags, list | tuple) for tag in tags if isinstance(tag, str)}


def _key_of(item: Item) -> str:
    if isinstance(item, Tool | Prompt):
        return item.name
    return item.uri_template if isinstance(item, ResourceTemplate) else item.uri


def _predicate(which: Which | None) -> Callable[[str], bool]:
    if which is None:
        return lambda _: True
    if callable(which):
        return which
    patterns = [which] if isinstance(which, str) else list(which)
    return lambda name: any(fnmatchcase(name, pattern) for pattern in patterns)
