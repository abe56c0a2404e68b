"""Resources and resource templates that an author registers, and reading them.

https://modelcontextprotocol.io/specification/2026-07-28/server/resources
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack, cast

import msgspec

from carrel.awaitables import MaybeAwaitable
from carrel.errors import ConfigError, InvalidParams, ResourceNotFound
from carrel.media_types import type_of_name
from carrel.protocol.json_values import InvalidArguments
from carrel.protocol.methods import LIST_RESOURCE_TEMPLATES, LIST_RESOURCES
from carrel.server.completion import CompletableFunction, Completers
from carrel.server.contents import contents_of, is_path, returns_paths
from carrel.server.invocation import Function
from carrel.server.options import (
    ResourceOptions,
    annotations_of,
    cache_hint_of,
    check_options,
    details_of,
    visibility_of,
)
from carrel.server.registry import ItemRegistry, RegisteredItem
from carrel.uri.parse import UriError, canonical, normalize
from carrel.uri.template import UriTemplate, UriTemplateError
from carrel.wire.base import TAGS
from carrel.wire.resources import ReadResourceResult, Resource, ResourceTemplate, TextResourceContents

if TYPE_CHECKING:
    from carrel.protocol.channel import Channel
    from carrel.protocol.server import Call
    from carrel.server.runtime import Runtime
    from carrel.server.schema.parameter import Parameter

__all__ = ["Resources", "StaticResource", "Template"]

P = ParamSpec("P")
R = TypeVar("R")


class CacheHint(msgspec.Struct, frozen=True):
    """Cache hints of a result: ``ttlMs`` and ``cacheScope``. None leaves them to the server's defaults."""

    ttl_ms: int | None = None
    scope: Any = None


class StaticResource(RegisteredItem):
    """A resource of one URI, with a value or a function that returns it."""

    cache_hint: CacheHint
    declared: str | None = None
    """MIME type given at registration, as opposed to the one that follows from the value."""
    value: Any = None
    function: Function | None = None
    ready: ReadResourceResult | None = None


class Template(RegisteredItem):
    """A resource template, and the function that reads its resources."""

    pattern: UriTemplate
    cache_hint: CacheHint
    completers: Completers
    function: Function
    is_text: bool
    """Whether the function takes the values as they are in the URI, unless there is a comma in it."""


class Resources:
    """Registry of resources and templates. ``app.resources`` is one.

    ``on_templates`` is called when templates are added or removed.
    """

    def __init__(self, runtime: Runtime, on_templates: Callable[[], None]) -> None:
        self._runtime = runtime
        self.static: ItemRegistry[StaticResource] = ItemRegistry(runtime, LIST_RESOURCES)
        """Resources by URI."""
        self.templates: ItemRegistry[Template] = ItemRegistry(runtime, LIST_RESOURCE_TEMPLATES, on_templates)
        """Resource templates, by their URI templates."""

    @property
    def used(self) -> bool:
        """Whether anything was ever registered."""
        return self.static.used or self.templates.used

    @property
    def guarded(self) -> bool:
        """Whether any has a ``when``, so that lists depend on the caller."""
        return self.static.guarded or self.templates.guarded

    # Registration

    def add(self, uri: str, value: Any, **options: Unpack[ResourceOptions]) -> None:
        """Register ``value`` as the resource ``uri``, and notify clients that the list changed.

        ``value`` is text, bytes, a ``Path`` (read anew each time), anything JSON can hold, ``Contents``, or a function
        without parameters (other than a ``Context``) that returns one of them. ``size`` is in bytes, ``ttl`` in
        seconds. For ``tags`` and ``when`` see ``tools.add``.

        Raises:
            ConfigError: the URI is not one, is a template, or is taken.
        """
        uri = checked_uri(uri)
        self.static.check_free(uri, "; use replace to change it")
        self.static.put(uri, self._static(uri, value, options))

    def replace(self, uri: str, value: Any, **options: Unpack[ResourceOptions]) -> None:
        """Replace the value of a registered resource, in the same place of the list.

        Options that are not given stay as they were. Takes what ``add`` takes.

        Raises:
            ConfigError: there is no resource of that URI.
        """
        uri = checked_uri(uri)
        old = self.static.find(uri)
        if old is None:
            raise ConfigError(f"There is no resource {uri} to replace")
        before, hint = old.item, old.cache_hint
        kept: dict[str, Any] = {
            field: getattr(before, field) for field in ("name", "title", "description", "annotations", "icons")
        }
        kept["meta"] = {key: value for key, value in (before.meta or {}).items() if key != TAGS} or None
        kept |= {"mime_type": old.declared or None, "tags": old.tags, "when": old.when}
        kept |= {"ttl": None if hint.ttl_ms is None else hint.ttl_ms / 1000, "scope": hint.scope}
        self.static.put(uri, self._static(uri, value, cast("ResourceOptions", {**kept, **options})))
        self.changed(uri)

    def remove(self, uri: str) -> None:
        """Remove a resource or a template, and notify clients that the list changed.

        Raises:
            KeyError: no such URI.
        """
        self.templates.remove(uri) if "{" in uri else self.static.remove(checked_uri(uri))

    def disable(self, *uris: str, tags: Iterable[str] = ()) -> None:
        """Disable resources and templates by URI, or all with one of ``tags``, including later additions.

        Clients see them as missing until they are enabled again, and are notified that the list changed.

        Raises:
            KeyError: no such URI.
        """
        static, templates = _split(uris)
        self.static.disable(*static, tags=tags)
        self.templates.disable(*templates, tags=tags)

    def enable(self, *uris: str, tags: Iterable[str] = ()) -> None:
        """Enable resources and templates that were disabled by the same URI or tags.

        Raises:
            KeyError: no such URI.
        """
        static, templates = _split(uris)
        self.static.enable(*static, tags=tags)
        self.templates.enable(*templates, tags=tags)

    def changed(self, *uris: str) -> None:
        """Notify subscribers that resources have changed, in both eras. May be called from any thread."""
        self._runtime.notify(uris=[canonical(uri) for uri in uris])

    def register(
        self, uri: str, function: Callable[P, R], **options: Unpack[ResourceOptions]
    ) -> CompletableFunction[P, R]:
        """Register a function as a resource, or as a resource template if ``uri`` is a URI template."""
        if "{" not in uri:
            self.add(uri, function, **options)
            return CompletableFunction(function, Completers(uri))
        if options.get("size") is not None:
            raise ConfigError(f"{uri}: a template has no size; its resources may have one each")
        self.templates.check_free(uri)
        entry = self._template(uri, function, options)
        self.templates.put(uri, entry)
        return CompletableFunction(function, entry.completers)

    def _static(self, uri: str, value: Any, options: ResourceOptions) -> StaticResource:
        check_options("resources.add()", options, ResourceOptions.__annotations__)
        function: Function | None = None
        name, size = options.get("name"), options.get("size")
        if size is not None and size < 0:
            raise ConfigError(f"{uri}: size must be 0 or more bytes, not {size}")
        if callable(value):
            function = Function(self._runtime, value, f"resource {uri}")
            if function.signature.parameters:
                names = ", ".join(parameter.name for parameter in function.signature.parameters)
                raise ConfigError(f"{uri} has no variables, but its function takes {names}")
            name = name or getattr(value, "__name__", None)
        resource = Resource(
            uri,
            name or uri.rstrip("/").rpartition("/")[2] or uri,
            mime_type=options.get("mime_type"),
            size=size,
            annotations=annotations_of(options.get("annotations")),
            **details_of(options, None if function is None else function.signature.description),
        )
        hint = CacheHint(*cache_hint_of(options.get("ttl"), options.get("scope")))
        entry = StaticResource(hint, resource.mime_type, value, function, item=resource, **visibility_of(options))
        if is_path(value) and not value.exists():
            raise ConfigError(f"{uri}: there is no file {value}")
        if function is None and not returns_paths(value):
            try:
                entry.ready = _result(entry, value, uri)
            except TypeError as error:
                raise ConfigError(f"{uri}: {error}") from None
            contents = entry.ready.contents
            if resource.mime_type is None and len(contents) == 1:
                resource.mime_type = contents[0].mime_type
            if resource.size is None and len(contents) == 1:
                data = contents[0]
                resource.size = len(data.blob) if hasattr(data, "blob") else len(data.text.encode())
        elif function is None and resource.mime_type is None:
            resource.mime_type = type_of_name(value.name) if hasattr(value, "suffix") else None
        return entry

    def _template(self, uri_template: str, function: Callable[..., Any], options: ResourceOptions) -> Template:
        try:
            pattern = UriTemplate(uri_template)
        except UriTemplateError as error:
            raise ConfigError(f"{uri_template} is not a URI template: {error}") from None
        called = Function(self._runtime, function, f"resource {uri_template}")
        parameters = {parameter.name: parameter for parameter in called.signature.parameters}
        _check_variables(pattern, parameters, called, uri_template)
        template = ResourceTemplate(
            uri_template,
            options.get("name") or str(getattr(function, "__name__", uri_template)),
            mime_type=options.get("mime_type"),
            annotations=annotations_of(options.get("annotations")),
            **details_of(options, called.signature.description),
        )
        completers = Completers(uri_template, pattern.names, called.signature)
        is_text = called.signature.positional and all(
            parameters[variable.name].annotation in (str, Any) and not variable.explode
            for variable in pattern.variables
        )
        hint = CacheHint(*cache_hint_of(options.get("ttl"), options.get("scope")))
        return Template(pattern, hint, completers, called, is_text, item=template, **visibility_of(options))

    # Requests

    @property
    def completes(self) -> bool:
        """Whether any variable can be completed."""
        return any(entry.completers for entry in self.templates.entries)

    def read(self, entry: StaticResource, call: Call, channel: Channel) -> MaybeAwaitable[ReadResourceResult | bytes]:
        """Return the result of reading a resource of one URI, or an awaitable of it."""
        if entry.ready is not None:
            return entry.ready
        if entry.function is None:
            return self._read_files(entry, entry.value, entry.item.uri, call)
        return self._invoke(entry, entry.function, {}, entry.item.uri, call, channel)

    def read_template(
        self, entry: Template, uri: str, values: Mapping[str, Any], call: Call, channel: Channel
    ) -> MaybeAwaitable[ReadResourceResult | bytes]:
        """Return the result of reading a resource of a template, or an awaitable of it.

        Raises:
            InvalidParams: a variable has a value that the function does not take.
        """
        function = entry.function
        arguments = self._convert(function, values, uri) if not entry.is_text or "," in uri else values
        return self._invoke(entry, function, arguments, uri, call, channel)

    @staticmethod
    def _convert(function: Function, values: Any, uri: str) -> dict[str, Any]:
        if "," in uri:
            for parameter in function.signature.parameters:
                if parameter.annotation is str and type(values.get(parameter.name)) is list:
                    values[parameter.name] = ",".join(values[parameter.name])  # commas in a text look like a list
        try:
            return function.signature.convert(values)
        except InvalidArguments as error:
            raise InvalidParams(f"Invalid params: {error}", parameter=error.parameter) from None

    def _invoke(
        self,
        entry: StaticResource | Template,
        function: Function,
        arguments: Mapping[str, Any],
        uri: str,
        call: Call,
        channel: Channel,
    ) -> MaybeAwaitable[ReadResourceResult]:
        value = function.invoke(arguments, call, channel)
        if not function.immediate:
            return self._invoke_later(entry, value, uri, call)
        if type(value) is str:  # the hot path
            text = TextResourceContents(uri, value, mime_type=entry.item.mime_type or "text/plain")
            hint = entry.cache_hint
            return ReadResourceResult(contents=[text], ttl_ms=hint.ttl_ms, cache_scope=hint.scope)
        if value is None:
            raise ResourceNotFound(uri)
        return self._read_files(entry, value, uri, call) if returns_paths(value) else _result(entry, value, uri)

    async def _invoke_later(
        self, entry: StaticResource | Template, pending: Awaitable[Any], uri: str, call: Call
    ) -> ReadResourceResult:
        value = await pending
        if value is None:
            raise ResourceNotFound(uri)
        return await self._read_files(entry, value, uri, call) if returns_paths(value) else _result(entry, value, uri)

    async def _read_files(
        self, entry: StaticResource | Template, value: Any, uri: str, call: Call
    ) -> ReadResourceResult:
        result: ReadResourceResult = await self._runtime.run_in_thread(call, _result, entry, value, uri)
        return result


def checked_uri(uri: str) -> str:
    """Return the normal form of the URI of a resource.

    Raises:
        ConfigError: it is not a URI.
    """
    try:
        return normalize(uri)
    except UriError as error:
        raise ConfigError(f"{uri!r} is not a URI: {error}") from None


def _split(uris: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return URIs in their normal form, and URI templates."""
    uris = list(uris)
    return [checked_uri(uri) for uri in uris if "{" not in uri], [uri for uri in uris if "{" in uri]


def _check_variables(
    pattern: UriTemplate, parameters: Mapping[str, Parameter], called: Function, uri_template: str
) -> None:
    """Check that a function takes the variables of a template.

    Raises:
        ConfigError: it does not.
    """
    required = [name for name in parameters if name not in pattern.names and parameters[name].required]
    missing = [name for name in pattern.names if name not in parameters]
    if required or (missing and not called.signature.open):
        raise ConfigError(
            f"{uri_template}: the variables are {list(pattern.names)}, but the function takes {list(parameters)}"
        )
    for variable in pattern.variables:
        if variable.explode and variable.name in parameters and parameters[variable.name].annotation is str:
            raise ConfigError(
                f"{uri_template}: {variable.name} is exploded, so there may be several; annotate it list[str]"
            )


def _result(entry: StaticResource | Template, value: Any, uri: str) -> ReadResourceResult:
    hint, contents = entry.cache_hint, contents_of(value, uri, entry.item.mime_type)
    return ReadResourceResult(contents=contents, ttl_ms=hint.ttl_ms, cache_scope=hint.scope)
