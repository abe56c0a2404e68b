"""Resources and resource templates that an author registers, and reading them.

https://modelcontextprotocol.io/specification/2026-07-28/server/resources
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack

import msgspec

from carrel.catalog.ordered_list import OrderedList
from carrel.errors import ConfigError, InvalidParams, ResourceNotFound
from carrel.media_types import type_of_name
from carrel.protocol.json_values import InvalidArguments
from carrel.server.completion import CompletableFunction, Completers, Run
from carrel.server.contents import contents_of, returns_paths
from carrel.server.invocation import Function
from carrel.server.metadata import TAGS, Meta, annotations_of, icons_of, tagged, tags_of
from carrel.server.options import ResourceOptions, When
from carrel.uri.parse import UriError, canonical, normalize
from carrel.uri.template import UriTemplate, UriTemplateError
from carrel.wire.base import Annotations, Icon
from carrel.wire.resources import ReadResourceResult, Resource, ResourceTemplate, TextResourceContents

if TYPE_CHECKING:
    from carrel.protocol.channel import Channel
    from carrel.protocol.server import Call
    from carrel.server.runtime import Runtime
    from carrel.server.visibility import Switches

__all__ = ["Resources", "StaticResource", "Template"]

P = ParamSpec("P")
R = TypeVar("R")


class CacheHint(msgspec.Struct, frozen=True):
    """Cache hints of a result: ``ttlMs`` and ``cacheScope``. None leaves them to the server's defaults."""

    ttl_ms: int | None = None
    scope: Any = None


class StaticResource(msgspec.Struct, eq=False):
    """A resource of one URI, with a value or a function that returns it."""

    resource: Resource
    cache_hint: CacheHint
    declared: str | None = None
    """MIME type given at registration, as opposed to the one that follows from the value."""
    value: Any = None
    function: Function | None = None
    ready: ReadResourceResult | None = None
    tags: frozenset[str] = frozenset()
    when: When | None = None
    """Whether it exists for the caller of a request; None: for all."""


class Template(msgspec.Struct, eq=False):
    """A resource template, and the function that reads its resources."""

    template: ResourceTemplate
    pattern: UriTemplate
    cache_hint: CacheHint
    completers: Completers
    function: Function
    is_text: bool
    """Whether the function takes the values as they are in the URI, unless there is a comma in it."""
    tags: frozenset[str] = frozenset()
    when: When | None = None


class Resources:
    """Registry of resources and templates. ``app.resources`` is one.

    ``on_templates`` is called when templates are added or removed.
    """

    def __init__(self, runtime: Runtime, on_templates: Callable[[], None]) -> None:
        self._runtime = runtime
        self._on_templates = on_templates
        self.static: OrderedList[StaticResource] = OrderedList()
        """Resources of one URI, by it."""
        self.templates: OrderedList[Template] = OrderedList()
        """Resource templates, by their URI templates."""
        self.guarded = False
        """Whether any has a ``when``, so that lists depend on the caller."""
        self._switches: tuple[Switches[StaticResource], Switches[Template]] | None = None

    @property
    def used(self) -> bool:
        """Whether anything was ever registered."""
        return bool(self.static.changes or self.templates.changes)

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
        tags: Iterable[str] = (),
        when: When | None = None,
    ) -> None:
        """Register ``value`` as the resource ``uri``, and notify clients that the list changed.

        ``value`` is text, bytes, a ``Path`` (read anew each time), anything JSON can hold, ``Contents``, or a function
        without parameters (other than a ``Context``) that returns one of them. ``size`` is in bytes, ``ttl`` in
        seconds. For ``tags`` and ``when`` see ``tools.add``.

        Raises:
            ConfigError: the URI is not one, is a template, or is taken.
        """
        uri = self._check_uri(uri)
        if uri in self.static or (self._switches is not None and uri in self._switches[0].off):
            raise ConfigError(f"There is a resource {uri} already; use replace to change it")
        cache_hint = _cache_hint(ttl, scope)
        self._put(
            uri, value, name, title, description, mime_type, size, annotations, icons, cache_hint, meta, tags, when
        )

    def replace(self, uri: str, value: Any, **options: Unpack[ResourceOptions]) -> None:
        """Replace the value of a registered resource, in the same place of the list.

        Options that are not given stay as they were. Takes what ``add`` takes.

        Raises:
            ConfigError: there is no resource of that URI.
        """
        uri = self._check_uri(uri)
        old = self.static.get(uri)
        if old is None and self._switches is not None:
            old = self._switches[0].off.get(uri)
        if old is None:
            raise ConfigError(f"There is no resource {uri} to replace")
        before = old.resource
        kept: dict[str, Any] = {
            field: getattr(before, field) for field in ("name", "title", "description", "annotations", "icons", "meta")
        }
        kept |= {"size": None, "mime_type": old.declared or None, "tags": old.tags, "when": old.when, **options}
        kept["meta"] = {key: value for key, value in (kept["meta"] or {}).items() if key != TAGS} or None
        given = _cache_hint(kept.pop("ttl", None), kept.pop("scope", None))
        cache_hint = CacheHint(
            old.cache_hint.ttl_ms if given.ttl_ms is None else given.ttl_ms,
            old.cache_hint.scope if given.scope is None else given.scope,
        )
        self._put(uri, value, cache_hint=cache_hint, **kept)
        self.changed(uri)

    def remove(self, uri: str) -> None:
        """Remove a resource or a template, and notify clients that the list changed.

        Raises:
            KeyError: no such URI.
        """
        if "{" in uri:
            self.templates.remove(uri) if self._switches is None else self._switches[1].remove(uri)
        else:
            uri = self._check_uri(uri)
            self.static.remove(uri) if self._switches is None else self._switches[0].remove(uri)
        self._listed((uri,))

    def disable(self, *uris: str, tags: Iterable[str] = ()) -> None:
        """Disable resources and templates by URI, or all with one of ``tags``, including later additions.

        Clients see them as missing until they are enabled again, and are notified that the list changed.

        Raises:
            KeyError: no such URI.
        """
        static, templates = self._switch()
        labels = tags_of(tags)
        static.disable([self._check_uri(uri) for uri in uris if "{" not in uri], labels)
        templates.disable([uri for uri in uris if "{" in uri], labels)

    def enable(self, *uris: str, tags: Iterable[str] = ()) -> None:
        """Enable resources and templates that were disabled by the same URI or tags.

        Raises:
            KeyError: no such URI.
        """
        static, templates = self._switch()
        labels = tags_of(tags)
        static.enable([self._check_uri(uri) for uri in uris if "{" not in uri], labels)
        templates.enable([uri for uri in uris if "{" in uri], labels)

    def _switch(self) -> tuple[Switches[StaticResource], Switches[Template]]:
        if self._switches is None:
            from carrel.server.visibility import Switches  # few servers disable anything

            self._switches = Switches(self.static, self._listed), Switches(self.templates, self._listed)
        return self._switches

    def _listed(self, uris: Iterable[str]) -> None:
        self._on_templates()
        self._runtime.notify(lists={"resources_list_changed": uris})

    def changed(self, *uris: str) -> None:
        """Notify subscribers that resources have changed, in both eras. May be called from any thread."""
        self._runtime.notify(uris=[canonical(uri) for uri in uris])

    def register(
        self, uri: str, function: Callable[P, R], **options: Unpack[ResourceOptions]
    ) -> CompletableFunction[P, R]:
        """Register a function as a resource, or as a resource template if ``uri`` is a URI template."""
        if "{" in uri:
            entry = self._add_template(uri, function, **options)
            return CompletableFunction(function, entry.completers, entry.pattern.names)
        self.add(uri, function, **options)
        return CompletableFunction(function, Completers({}), ())

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
        cache_hint: CacheHint,
        meta: Meta | None,
        tags: Iterable[str],
        when: When | None,
    ) -> None:
        function: Function | None = None
        if size is not None and size < 0:
            raise ConfigError(f"{uri}: size must be 0 or more bytes, not {size}")
        if callable(value):
            function = Function(self._runtime, value, f"resource {uri}")
            if function.signature.parameters:
                names = ", ".join(parameter.name for parameter in function.signature.parameters)
                raise ConfigError(f"{uri} has no variables, but its function wants {names}")
            name = name or getattr(value, "__name__", None)
            description = description or function.signature.description
        resource = Resource(
            uri,
            name or uri.rstrip("/").rpartition("/")[2] or uri,
            title=title,
            description=description,
            mime_type=mime_type,
            size=size,
            annotations=annotations_of(annotations),
            icons=icons_of(icons),
            meta=tagged(meta, labels := tags_of(tags)),
        )
        entry = StaticResource(resource, cache_hint, resource.mime_type, value, function, tags=labels, when=when)
        self.guarded = self.guarded or when is not None
        if isinstance(value, Path) and not value.exists():
            raise ConfigError(f"{uri}: there is no file {value}")
        if function is None and not returns_paths(value):
            try:
                contents = contents_of(value, uri, resource.mime_type)
            except TypeError as error:
                raise ConfigError(f"{uri}: {error}") from None
            if resource.mime_type is None and len(contents) == 1:
                resource.mime_type = contents[0].mime_type
            if resource.size is None and len(contents) == 1:
                data = contents[0]
                resource.size = len(data.blob) if hasattr(data, "blob") else len(data.text.encode())
            entry.ready = _result(contents, entry.cache_hint)
        elif function is None and resource.mime_type is None:
            resource.mime_type = type_of_name(value.name) if hasattr(value, "suffix") else None
        if self._switches is None:
            self.static.put(uri, entry)
        else:
            self._switches[0].put(uri, entry)
        self._runtime.notify(lists={"resources_list_changed": (uri,)})

    def _add_template(
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
        tags: Iterable[str] = (),
        when: When | None = None,
    ) -> Template:
        if size is not None:
            raise ConfigError(f"{uri_template}: a template has no size; its resources may have one each")
        if uri_template in self.templates or (self._switches is not None and uri_template in self._switches[1].off):
            raise ConfigError(f"There is a template {uri_template} already")
        try:
            pattern = UriTemplate(uri_template)
        except UriTemplateError as error:
            raise ConfigError(f"{uri_template} is not a URI template: {error}") from None
        called = Function(self._runtime, function, f"resource {uri_template}")
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
            title=title,
            description=description or called.signature.description,
            mime_type=mime_type,
            annotations=annotations_of(annotations),
            icons=icons_of(icons),
            meta=tagged(meta, labels := tags_of(tags)),
        )
        completers = Completers({name: values for name, values in choices.items() if values})
        is_text = called.signature.positional and all(
            parameters[variable.name].annotation in (str, Any) and not variable.explode
            for variable in pattern.variables
        )
        hint = _cache_hint(ttl, scope)
        template_entry = Template(template, pattern, hint, completers, called, is_text, labels, when)
        self.guarded = self.guarded or when is not None
        if self._switches is None:
            self.templates.put(uri_template, template_entry)
        else:
            self._switches[1].put(uri_template, template_entry)
        self._listed((uri_template,))
        return template_entry

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
        return any(entry.completers for entry in self.templates)

    def read(self, entry: StaticResource, call: Call, channel: Channel) -> Any:
        """Return the result of reading a resource of one URI, or an awaitable of it."""
        if entry.ready is not None:
            return entry.ready
        if entry.function is None:
            return self._finish_later(
                self._runtime.run_in_thread(
                    call, contents_of, entry.value, entry.resource.uri, entry.resource.mime_type
                ),
                entry.cache_hint,
            )
        return self._invoke(
            entry.function, {}, entry.resource.uri, entry.resource.mime_type, entry.cache_hint, call, channel
        )

    def read_template(self, entry: Template, uri: str, values: Mapping[str, Any], call: Call, channel: Channel) -> Any:
        """Return the result of reading a resource of a template, or an awaitable of it.

        Raises:
            InvalidParams: a variable has a value that the function does not take.
        """
        function = entry.function
        arguments = self._convert(function, values, uri) if not entry.is_text or "," in uri else values
        return self._invoke(function, arguments, uri, entry.template.mime_type, entry.cache_hint, call, channel)

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
        function: Function,
        arguments: Mapping[str, Any],
        uri: str,
        mime_type: str | None,
        cache_hint: CacheHint,
        call: Call,
        channel: Channel,
    ) -> Any:
        value = function.invoke(arguments, call, channel)
        if not function.immediate:
            return self._invoke_later(value, uri, mime_type, cache_hint, call)
        if type(value) is str:  # the hot path
            text = TextResourceContents(uri, value, mime_type=mime_type or "text/plain")
            return ReadResourceResult(contents=[text], ttl_ms=cache_hint.ttl_ms, cache_scope=cache_hint.scope)
        if returns_paths(value):
            return self._finish_later(self._runtime.run_in_thread(call, contents_of, value, uri, mime_type), cache_hint)
        if value is None:
            raise ResourceNotFound(uri)
        return _result(contents_of(value, uri, mime_type), cache_hint)

    async def _invoke_later(
        self, pending: Any, uri: str, mime_type: str | None, cache_hint: CacheHint, call: Call
    ) -> Any:
        value = await pending
        if value is None:
            raise ResourceNotFound(uri)
        if returns_paths(value):
            return _result(await self._runtime.run_in_thread(call, contents_of, value, uri, mime_type), cache_hint)
        return _result(contents_of(value, uri, mime_type), cache_hint)

    @staticmethod
    async def _finish_later(pending: Any, cache_hint: CacheHint) -> ReadResourceResult:
        return _result(await pending, cache_hint)

    def suggest(self, entry: Template, argument: str, value: str, context: Mapping[str, str], run: Run) -> Any:
        """Return suggestions for a variable of a template, or an awaitable of them.

        Raises:
            InvalidParams: there is no such variable.
        """
        names = entry.pattern.names
        if argument not in names:
            raise InvalidParams(
                f"Invalid params: {entry.template.uri_template} has no variable {argument[:200]!r}; "
                f"it has {', '.join(names)}",
                parameter="argument",
            )
        return entry.completers.suggest(argument, value, dict(context), run)


def _cache_hint(ttl: float | None, scope: str | None) -> CacheHint:
    if ttl is not None and ttl < 0:
        raise ConfigError(f"ttl must be 0 or more seconds, not {ttl}")
    if scope not in (None, "public", "private"):
        raise ConfigError(f"scope must be 'public' or 'private', not {scope!r}")
    return CacheHint(None if ttl is None else round(ttl * 1000), scope)


def _result(contents: Any, cache_hint: CacheHint) -> ReadResourceResult:
    return ReadResourceResult(contents=contents, ttl_ms=cache_hint.ttl_ms, cache_scope=cache_hint.scope)
