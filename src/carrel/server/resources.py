"""Resources of a server: static resources, resource templates, and those of sources.

A URI is looked up in this order: a resource of exactly that URI; the templates, the one with the most literal
characters first, then in the order in which they came; the sources, in the order in which they were shared.

https://modelcontextprotocol.io/specification/2026-07-28/server/resources
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from carrel.errors import ConfigError, InvalidCursor, InvalidParams, ResourceNotFound
from carrel.protocol.json_values import InvalidArguments
from carrel.server.completion import CompletableFunction, Completers, Run
from carrel.server.contents import contents_of, guess_mime_type, returns_paths
from carrel.server.invocation import Function
from carrel.server.listing import Listing, answer_page, decode_cursor, encode_cursor
from carrel.server.metadata import Meta, annotations_of, icons_of, or_unset
from carrel.server.views import (
    Visible,
    is_viewable,
    private,
    private_later,
    shown,
    source_seen,
    template_seen,
    visible_to,
)
from carrel.uri.parse import UriError, normalize, resolve
from carrel.uri.template import MAX_URI, UriTemplate, UriTemplateError
from carrel.wire.base import Annotations, Icon
from carrel.wire.resources import (
    ListResourcesResult,
    ListResourceTemplatesResult,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
)

if TYPE_CHECKING:
    from carrel.protocol.channel import Channel
    from carrel.protocol.principal import Principal
    from carrel.protocol.server import Call
    from carrel.server.app import Server
    from carrel.server.source import Source

__all__ = ["Resources"]

F = TypeVar("F", bound=Callable[..., Any])

#: Name of the list in the cursors of resources/list.
LIST = "list_resources"


class CacheHint(msgspec.Struct, frozen=True):
    """Cache hints of a result: ``ttlMs`` and ``cacheScope``. UNSET leaves them to the server's defaults."""

    ttl_ms: int | UnsetType = UNSET
    scope: Any = UNSET


class StaticResource(msgspec.Struct, eq=False):
    """A resource of one URI, with a value or a function that returns it."""

    resource: Resource
    freshness: CacheHint
    declared: str | UnsetType = UNSET
    """MIME type given at registration, as opposed to the one that follows from the value."""
    value: Any = UNSET
    function: Function | None = None
    ready: ReadResourceResult | None = None


class Template(msgspec.Struct, eq=False):
    """A resource template, and the function or the source that reads its resources."""

    template: ResourceTemplate
    pattern: UriTemplate
    freshness: CacheHint
    completers: Completers
    function: Function | None = None
    source: Any = None


class Resources:
    """Registry of resources, templates and sources, and handlers of their requests. ``app.resources`` is one."""

    def __init__(self, app: Server) -> None:
        self._app = app
        self._fixed: Listing[StaticResource] = Listing()
        self._families: Listing[Template] = Listing()
        self._by_precedence: list[Template] = []
        self._sources: list[Source] = []
        self.used = False

    # Registration

    def add(
        self,
        uri: str,
        value: Any,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
        size: int | None = None,
        annotations: Annotations | dict[str, Any] | None = None,
        icons: Iterable[Icon | dict[str, Any] | str] | None = None,
        ttl: float | None = None,
        scope: str | None = None,
        meta: Meta | None = None,
    ) -> None:
        """Register ``value`` as the resource ``uri``, and notify clients that the list changed.

        ``value`` is text, bytes, a ``Path`` (read anew each time), anything JSON can hold, ``Contents``, or a function
        without parameters (other than a ``Context``) that returns one of them. ``size`` is in bytes, ``ttl`` in
        seconds.

        Raises:
            ConfigError: the URI is not one, is a template, or is taken.
        """
        uri = self._check_uri(uri)
        if uri in self._fixed:
            raise ConfigError(f"There is a resource {uri} already; use replace to change it")
        freshness = _freshness(ttl, scope)
        self._put(uri, value, name, title, description, mime_type, size, annotations, icons, freshness, meta)

    def replace(self, uri: str, value: Any, **details: Any) -> None:
        """Replace the value of a registered resource, in the same place of the list.

        Details that are not given stay as they were. Takes what ``add`` takes.

        Raises:
            ConfigError: there is no resource of that URI.
        """
        uri = self._check_uri(uri)
        old = self._fixed.get(uri)
        if old is None:
            raise ConfigError(f"There is no resource {uri} to replace")
        before = old.resource
        kept: dict[str, Any] = {
            field: None if getattr(before, field) is UNSET else getattr(before, field)
            for field in ("name", "title", "description", "annotations", "icons", "meta")
        }
        kept |= {"size": None, "mime_type": old.declared or None} | details
        given = _freshness(kept.pop("ttl", None), kept.pop("scope", None))
        freshness = CacheHint(
            old.freshness.ttl_ms if given.ttl_ms is UNSET else given.ttl_ms,
            old.freshness.scope if given.scope is UNSET else given.scope,
        )
        self._put(uri, value, freshness=freshness, **kept)
        self.changed(uri)

    def remove(self, uri: str) -> None:
        """Remove a resource or a template, and notify clients that the list changed.

        Raises:
            KeyError: there is none of that URI.
        """
        if uri in self._families:
            family = self._families.remove(uri)
            self._by_precedence = [other for other in self._by_precedence if other is not family]
        else:
            uri = self._check_uri(uri)
            self._fixed.remove(uri)
        self._app.announce(lists=("resources_list_changed",))

    def changed(self, *uris: str) -> None:
        """Notify subscribers that resources have changed, in both eras. May be called from any thread."""
        self._app.announce(uris=[self._name(uri) for uri in uris])

    def resource(self, uri: str, **details: Any) -> Callable[[F], CompletableFunction[F]]:
        """Register the decorated function as a resource, or as a resource template if ``uri`` is a URI template."""

        def register(function: F) -> CompletableFunction[F]:
            if "{" in uri:
                family = self._add_family(uri, function, **details)
                return CompletableFunction(function, family.completers, family.pattern.names)
            self.add(uri, function, **details)
            return CompletableFunction(function, Completers({}), ())

        return register

    def _put(
        self,
        uri: str,
        value: Any,
        name: str | None,
        title: str | None,
        description: str | None,
        mime_type: str | None,
        size: int | None,
        annotations: Annotations | dict[str, Any] | None,
        icons: Iterable[Icon | dict[str, Any] | str] | None,
        freshness: CacheHint,
        meta: Meta | None,
    ) -> None:
        function: Function | None = None
        if size is not None and size < 0:
            raise ConfigError(f"{uri}: size must be 0 or more bytes, not {size}")
        if callable(value):
            function = Function(self._app, value, f"resource {uri}")
            if function.signature.parameters:
                names = ", ".join(parameter.name for parameter in function.signature.parameters)
                raise ConfigError(f"{uri} has no variables, but its function wants {names}")
            name = name or getattr(value, "__name__", None)
            description = description or function.signature.description
        resource = Resource(
            uri,
            name or uri.rstrip("/").rpartition("/")[2] or uri,
            title=or_unset(title),
            description=or_unset(description),
            mime_type=or_unset(mime_type),
            size=or_unset(size),
            annotations=annotations_of(annotations),
            icons=icons_of(icons),
            meta=or_unset(meta),
        )
        entry = StaticResource(resource, freshness, resource.mime_type, value, function)
        if function is None and not returns_paths(value):
            try:
                contents = contents_of(value, uri, resource.mime_type)
            except TypeError as error:
                raise ConfigError(f"{uri}: {error}") from None
            if resource.mime_type is UNSET and len(contents) == 1:
                resource.mime_type = contents[0].mime_type
            if resource.size is UNSET and len(contents) == 1:
                data = contents[0]
                resource.size = len(data.blob) if hasattr(data, "blob") else len(data.text.encode())
            entry.ready = _result(contents, entry.freshness)
        elif function is None and resource.mime_type is UNSET:
            resource.mime_type = guess_mime_type(value) if hasattr(value, "suffix") else UNSET
        self._fixed.put(uri, entry)
        self.used = True
        self._app.announce(lists=("resources_list_changed",))

    def _add_family(
        self,
        uri_template: str,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
        size: int | None = None,
        annotations: Annotations | dict[str, Any] | None = None,
        icons: Iterable[Icon | dict[str, Any] | str] | None = None,
        ttl: float | None = None,
        scope: str | None = None,
        meta: Meta | None = None,
    ) -> Template:
        if size is not None:
            raise ConfigError(f"{uri_template}: a template has no size; its resources may have one each")
        if uri_template in self._families:
            raise ConfigError(f"There is a template {uri_template} already")
        try:
            pattern = UriTemplate(uri_template)
        except UriTemplateError as error:
            raise ConfigError(f"{uri_template} is not a URI template: {error}") from None
        called = Function(self._app, function, f"resource {uri_template}")
        parameters = {parameter.name: parameter for parameter in called.signature.parameters}
        unknown = [name for name in parameters if name not in pattern.names]
        missing = [name for name in pattern.names if name not in parameters]
        required = [name for name in unknown if parameters[name].required]
        if required or (missing and not called.signature.open):
            raise ConfigError(
                f"{uri_template}: the variables are {list(pattern.names)}, but the function takes {list(parameters)}"
            )
        for variable in pattern.variables:
            if variable.explode and variable.name in parameters and parameters[variable.name].annotation is str:
                raise ConfigError(
                    f"{uri_template}: {variable.name} is exploded, so there may be several; annotate it list[str]"
                )
        choices = {name: called.signature.choices(parameter) for name, parameter in parameters.items()}
        template = ResourceTemplate(
            uri_template,
            name or str(getattr(function, "__name__", uri_template)),
            title=or_unset(title),
            description=or_unset(description or called.signature.description),
            mime_type=or_unset(mime_type),
            annotations=annotations_of(annotations),
            icons=icons_of(icons),
            meta=or_unset(meta),
        )
        completers = Completers({name: values for name, values in choices.items() if values})
        family = Template(template, pattern, _freshness(ttl, scope), completers, called)
        self._families.put(uri_template, family)
        families = [*self._by_precedence, family]  # a new list: the old one may be in use on another thread
        self._by_precedence = sorted(families, key=lambda other: -other.pattern.literal_length)
        self.used = True
        self._app.announce(lists=("resources_list_changed",))
        return family

    def attach(self, source: Source) -> None:
        """Add a source that has been started, and its templates."""
        self._sources.append(source)
        for template in source.templates():
            pattern = UriTemplate(template.uri_template)
            family = Template(template, pattern, CacheHint(), Completers({}), source=source)
            self._families.put(template.uri_template, family)
        self.used = True
        self._app.announce(lists=("resources_list_changed",))

    def detach(self) -> None:
        """Remove the sources and their templates, after they have been stopped."""
        self._sources.clear()
        for family in [family for family in self._families if family.source is not None]:
            self._families.remove(family.template.uri_template)

    @staticmethod
    def _name(uri: str) -> str:
        """Return the canonical form of a URI, for subscriptions; the URI itself if it cannot be resolved."""
        try:
            return str(resolve(uri))
        except UriError:
            return uri

    @staticmethod
    def _check_uri(uri: str) -> str:
        try:
            return normalize(uri)
        except UriError as error:
            raise ConfigError(f"{uri!r} is not a URI: {error}") from None

    # Requests

    @property
    def completes(self) -> bool:
        """Whether any variable can be completed."""
        return any(family.completers or family.source is not None for family in self._families)

    def read(self, call: Call, channel: Channel) -> Any:
        """Answer resources/read."""
        if call.principal is not None and call.principal.view:
            return self._read_view(call, channel)
        uri: str = call.params.uri
        entry = self._fixed.get(uri)
        if entry is None:
            return self._read_other(uri, call, channel)
        return self._read_fixed(entry, call, channel)

    def _read_view(self, call: Call, channel: Channel) -> Any:
        """Answer resources/read under access rules; ``cacheScope`` is private unless all may read it for certain."""
        uri: str = call.params.uri
        entry = self._fixed.get(uri)
        result = self._read_other(uri, call, channel) if entry is None else self._read_fixed(entry, call, channel)
        principal = call.principal
        if principal is not None and not principal.guarded(uri) and (entry is not None or not self._sources):
            return result  # of a source, a link may have led anywhere
        return private_later(result, call) if hasattr(result, "__await__") else private(result, call)

    def _read_fixed(self, entry: StaticResource, call: Call, channel: Channel) -> Any:
        if entry.ready is not None:
            return entry.ready
        if entry.function is None:
            return self._finish_later(
                self._app.run_in_thread(call, contents_of, entry.value, entry.resource.uri, entry.resource.mime_type),
                entry.freshness,
            )
        return self._invoke(
            entry.function, {}, entry.resource.uri, entry.resource.mime_type, entry.freshness, call, channel
        )

    def _read_other(self, uri: str, call: Call, channel: Channel) -> Any:
        if len(uri) > MAX_URI:
            raise _too_long(uri)
        if ("%" in uri or not uri.isascii()) and self._fixed:
            entry = self._fixed_as(uri)  # the same URI in another spelling is exact too
            if entry is not None:
                return self._read_fixed(entry, call, channel)
        for family in self._by_precedence:
            assert family.function is not None
            values = family.pattern.match(uri)
            if values is not None:
                arguments = self._convert(family.function, values)
                return self._invoke(
                    family.function, arguments, uri, family.template.mime_type, family.freshness, call, channel
                )
        normal = self._validated(uri)
        if normal != uri:
            entry = self._fixed.get(normal)
            if entry is not None:
                return self._read_fixed(entry, call, channel)
        source = self._owner(normal)
        if source is None:
            raise ResourceNotFound(uri)
        return self._read_source(source_seen(source, visible_to(call)), normal)

    def _owner(self, uri: str) -> Source | None:
        for source in self._sources:
            if source.owns(uri):
                return source
        return None

    def find_source(self, uri: str, visible: Visible | None = None) -> tuple[Source | None, str]:
        """Return the source of a client's URI, as the caller sees it, and the normal form of the URI.

        The source is None for a URI that no source owns, and for a hidden one.

        Raises:
            InvalidParams: it is not a URI at all.
        """
        normal = self._validated(uri)
        source = self._owner(normal) if visible is None or visible(normal) else None
        return None if source is None else source_seen(source, visible), normal

    def _fixed_as(self, uri: str) -> StaticResource | None:
        try:
            return self._fixed.get(normalize(uri))
        except UriError:
            return None

    @staticmethod
    def _validated(uri: str) -> str:
        """Return the normal form of a client's URI.

        Raises:
            InvalidParams: it is not a URI at all.
        """
        if len(uri) > MAX_URI:
            raise _too_long(uri)
        try:
            return normalize(uri)
        except UriError as error:
            raise InvalidParams(f"Invalid params: uri: {error}", {"uri": uri[:1000]}, parameter="uri") from None

    @staticmethod
    def _convert(function: Function, values: Any) -> dict[str, Any]:
        for parameter in function.signature.parameters:
            if parameter.annotation is str and type(values.get(parameter.name)) is list:
                values[parameter.name] = ",".join(values[parameter.name])  # commas in a text look like a list
        try:
            return function.signature.convert(values)
        except InvalidArguments as error:
            raise InvalidParams(f"Invalid params: {error}", parameter=error.parameter) from None

    def _invoke(
        self,
        function: Function,
        arguments: dict[str, Any],
        uri: str,
        mime_type: str | UnsetType,
        freshness: CacheHint,
        call: Call,
        channel: Channel,
    ) -> Any:
        value = function.invoke(arguments, call, channel)
        if not function.immediate:
            return self._invoke_later(value, uri, mime_type, freshness, call)
        if type(value) is not str and returns_paths(value):
            return self._finish_later(self._app.run_in_thread(call, contents_of, value, uri, mime_type), freshness)
        if value is None:
            raise ResourceNotFound(uri)
        return _result(contents_of(value, uri, mime_type), freshness)

    async def _invoke_later(
        self, pending: Any, uri: str, mime_type: str | UnsetType, freshness: CacheHint, call: Call
    ) -> Any:
        value = await pending
        if value is None:
            raise ResourceNotFound(uri)
        if returns_paths(value):
            return _result(await self._app.run_in_thread(call, contents_of, value, uri, mime_type), freshness)
        return _result(contents_of(value, uri, mime_type), freshness)

    @staticmethod
    async def _finish_later(pending: Any, freshness: CacheHint) -> ReadResourceResult:
        return _result(await pending, freshness)

    @staticmethod
    async def _read_source(source: Source, uri: str) -> ReadResourceResult:
        return ReadResourceResult(contents=list(await source.read(uri)))

    def exists(self, uri: str) -> str | None:
        """Return the canonical form of a URI whose resource exists or may come to exist; None if it never can.

        It is the same for all spellings: subscriptions are found by it.
        """
        if len(uri) > MAX_URI:
            return None
        try:
            normal = normalize(uri)
        except UriError:
            return None
        if (
            normal in self._fixed
            or any(family.pattern.match(uri) is not None for family in self._by_precedence)
            or self._owner(normal) is not None
        ):
            return self._name(uri)
        return None

    def require(self, uri: str) -> str:
        """Return the canonical form of a URI whose resource exists or may come to exist.

        Raises:
            InvalidParams: it is not a URI at all.
            ResourceNotFound: nothing ever can be.
        """
        name = self.exists(uri)
        if name is None:
            self._validated(uri)
            raise ResourceNotFound(uri)
        return name

    async def shows(self, uri: str, visible: Visible) -> bool:
        """Return whether the resource of a URI, and the target of links in its source, are visible to a caller."""
        if not visible(uri):
            return False
        try:
            source, normal = self.find_source(uri, visible)
        except InvalidParams:
            return True  # not a URI, which is the error that every caller gets
        return await source.shows(normal) if source is not None and is_viewable(source) else True

    def list(self, call: Call, channel: Channel) -> Any:
        """Answer resources/list."""
        if not self._sources:
            if call.principal is None:
                return answer_page(self._fixed, call, self._app.page_size, _resources_result)
            return self._answer_view(self._fixed, call, call.principal, _resources_result)
        cursor = None if call.params.cursor is UNSET else call.params.cursor
        if self._app.forming and call.connection.subscriptions is not None:
            page = self._list_later(cursor, visible_to(call))
        else:
            page = self.page(cursor, visible_to(call))
        return private_later(page, call) if call.principal is not None and call.principal.view else page

    async def _list_later(self, cursor: str | None, visible: Visible | None) -> ListResourcesResult:
        """Answer resources/list for a session once the sources listen, so that it is notified of later changes."""
        from carrel.server.watching import LIST_PATIENCE, listening

        await listening(tuple(self._app.forming), LIST_PATIENCE, promised=False)
        return await self.page(cursor, visible)

    def _answer_view(self, listing: Listing[Any], call: Call, principal: Principal, make: Callable[..., Any]) -> Any:
        """Answer a list request with the entries visible to the caller. Callers with the same view share its pages."""

        def make_view(entries: Any, cursor: Any) -> Any:
            return private(make(entries, cursor, principal.visible), call)

        variant = f" {principal.view}" if principal.view else ""
        return answer_page(listing, call, self._app.page_size, make_view, variant)

    async def _list_mixed(self, segment: int, position: Any, visible: Visible | None) -> ListResourcesResult:
        """Return one page across the registered resources and the sources, in that order."""
        limit = self._app.page_size
        found: list[Resource] = []
        if segment == 0:
            entries, more = self._fixed.page(position, limit)
            found = shown((entry.resource for entry in entries), visible)
            if more is not None:
                return ListResourcesResult(resources=found, next_cursor=encode_cursor(LIST, 0, more))
            segment, position = 1, ""
        while segment <= len(self._sources):
            if len(found) >= limit:
                return ListResourcesResult(resources=found, next_cursor=encode_cursor(LIST, segment, position))
            source = source_seen(self._sources[segment - 1], visible)
            page = await source.list(position or None, limit - len(found))
            found.extend(shown(page.items, visible))
            if page.next_cursor is not None:
                next_cursor = encode_cursor(LIST, segment, page.next_cursor)
                return ListResourcesResult(resources=found, next_cursor=next_cursor)
            segment, position = segment + 1, ""
        return ListResourcesResult(resources=found)

    def list_templates(self, call: Call, channel: Channel) -> Any:
        """Answer resources/templates/list."""
        if call.principal is None:
            return answer_page(self._families, call, self._app.page_size, _templates_result)
        return self._answer_view(self._families, call, call.principal, _templates_result)

    def suggest(
        self, uri: str, argument: str, value: str, context: dict[str, str], run: Run, visible: Visible | None = None
    ) -> Any:
        """Return suggestions for a variable of a template, or an awaitable of them.

        Some may name hidden resources (see ``views.suggested``).

        Raises:
            InvalidParams: there is no such template or variable.
        """
        family = self._families.get(uri)
        if family is None or not template_seen(family.pattern, visible):
            if self._fixed.get(uri) is not None:
                return []  # a URI without variables: nothing is left to complete
            raise InvalidParams(f"Invalid params: unknown resource template: {uri[:1000]}", parameter="ref")
        names = family.pattern.names
        if argument not in names:
            raise InvalidParams(
                f"Invalid params: {uri} has no variable {argument[:200]!r}; it has {', '.join(names)}",
                parameter="argument",
            )
        if family.source is not None:
            return source_seen(family.source, visible).complete(uri, argument, value, context)
        return family.completers.suggest(argument, value, context, run)

    # For tools over resources, and skills

    @property
    def sources(self) -> Sequence[Source]:
        """The sources that are shared."""
        return self._sources

    @property
    def templates(self) -> Iterable[ResourceTemplate]:
        """The templates, those of sources included."""
        return self.templates_seen(None)

    def templates_seen(self, visible: Visible | None) -> Iterable[ResourceTemplate]:
        """Return the templates that are visible to a caller."""
        return (family.template for family in self._families if template_seen(family.pattern, visible))

    async def page(self, cursor: str | None, visible: Visible | None = None) -> ListResourcesResult:
        """Return the page that ``cursor`` asks for, the first one for None, of all resources visible to a caller.

        A page may hold fewer entries than others, or none, and yet not be the last.

        Raises:
            InvalidCursor: the cursor was not given out here.
        """
        segment, position = (0, -1) if cursor is None else decode_cursor(LIST, cursor)
        if segment > len(self._sources) or isinstance(position, str) == (segment == 0):
            raise InvalidCursor
        return await self._list_mixed(segment, position, visible)

    @property
    def listed(self) -> Iterable[Resource]:
        """The resources that were registered one by one."""
        return (entry.resource for entry in self._fixed)


def _too_long(uri: str) -> InvalidParams:
    message = f"Invalid params: uri has more than {MAX_URI} characters"
    return InvalidParams(message, {"uri": uri[:1000]}, parameter="uri")


def _resources_result(
    entries: Sequence[StaticResource], next_cursor: str | UnsetType, visible: Visible | None = None
) -> ListResourcesResult:
    return ListResourcesResult(resources=shown((entry.resource for entry in entries), visible), next_cursor=next_cursor)


def _templates_result(
    entries: Sequence[Template], next_cursor: str | UnsetType, visible: Visible | None = None
) -> ListResourceTemplatesResult:
    templates = [entry.template for entry in entries if template_seen(entry.pattern, visible)]
    return ListResourceTemplatesResult(resource_templates=templates, next_cursor=next_cursor)


def _freshness(ttl: float | None, scope: str | None) -> CacheHint:
    if ttl is not None and ttl < 0:
        raise ConfigError(f"ttl must be 0 or more seconds, not {ttl}")
    if scope not in (None, "public", "private"):
        raise ConfigError(f"scope must be 'public' or 'private', not {scope!r}")
    return CacheHint(UNSET if ttl is None else round(ttl * 1000), UNSET if scope is None else scope)


def _result(contents: Any, freshness: CacheHint) -> ReadResourceResult:
    return ReadResourceResult(contents=contents, ttl_ms=freshness.ttl_ms, cache_scope=freshness.scope)
