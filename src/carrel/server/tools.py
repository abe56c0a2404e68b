"""Tools of a server: registration, tools/list and tools/call.

https://modelcontextprotocol.io/specification/2026-07-28/server/tools
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec
from msgspec import Raw

from carrel.awaitables import resolved
from carrel.catalog.ordered_list import OrderedList
from carrel.catalog.request import InputRequired, TaskSupport
from carrel.errors import (
    ConfigError,
    InvalidParams,
    MCPError,
    MissingCapability,
    ProtocolError,
    ResourceForbidden,
    ResourceNotFound,
    ToolError,
)
from carrel.log import Log
from carrel.protocol.json_values import InvalidArguments
from carrel.server.checks import name_of
from carrel.server.context import Context
from carrel.server.failures import MaskedError, is_interrupt, log_failure, message_of
from carrel.server.invocation import Function
from carrel.server.metadata import Meta, icons_of, read_struct, tagged, tags_of
from carrel.server.options import UnknownArguments, When
from carrel.server.registered_tool import RegisteredTool
from carrel.server.results import result_of
from carrel.wire.base import Icon
from carrel.wire.content import TextContent
from carrel.wire.tools import CallToolResult, Tool, ToolAnnotations

if TYPE_CHECKING:
    from carrel.protocol.channel import Channel
    from carrel.protocol.connection import Peer
    from carrel.protocol.server import Call
    from carrel.server.runtime import Runtime
    from carrel.server.tasks.tasks import Tasks
    from carrel.server.visibility import Switches

__all__ = ["Tools", "run"]

F = TypeVar("F", bound=Callable[..., Any])

log = Log("carrel")


class Tools:
    """Registry of tools, and handlers of their requests. ``app.tools`` is one."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.entries: OrderedList[RegisteredTool] = OrderedList()
        """Registered tools, by name."""
        self.guarded = False
        """Whether any has a ``when``, so that lists depend on the caller."""
        self._switches: Switches[RegisteredTool] | None = None
        self._have_pages = False

    @property
    def used(self) -> bool:
        """Whether anything was ever registered."""
        return bool(self.entries.changes)

    def add(
        self,
        function: F,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        annotations: ToolAnnotations | dict[str, Any] | None = None,
        icons: Iterable[Icon | dict[str, Any] | str] | None = None,
        input_schema: dict[str, Any] | None = None,
        output_schema: dict[str, Any] | None = None,
        structured: bool | None = None,
        mask_errors: bool | None = None,
        strict: bool | None = None,
        unknown_arguments: UnknownArguments | None = None,
        task: TaskSupport = "forbidden",
        detaches: bool = False,
        ui: str | None = None,
        visibility: Iterable[str] | None = None,
        meta: Meta | None = None,
        tags: Iterable[str] = (),
        when: When | None = None,
        replace: bool = False,
    ) -> F:
        """Register a function as a tool, and notify clients that the list changed.

        The schema of the arguments comes from the signature, unless ``input_schema`` gives one (JSON Schema 2020-12, or
        the dialect of its ``$schema``); then the function gets them as they are. ``structured=False`` keeps the result
        out of ``structuredContent``, ``True`` always puts it there.

        With ``strict``, arguments are held to the schema; otherwise the text "5" is read as an integer, and so on.
        ``unknown_arguments`` says whether to "reject" or "ignore" arguments that the function does not have. These two
        and ``mask_errors`` default to the server's options.

        ``task`` says whether a call may ("optional") or must ("required") become a task, whose result is fetched later;
        with ``detaches`` it does so when the function calls ``context.detach()``, and otherwise at once.

        ``tags`` are listed in ``_meta``, and name tools to ``disable``. Callers for whom ``when``, a function of their
        ``Context``, returns False have no such tool.

        ``ui`` is the URI of a page (see ``Server.ui``) that shows the results, ``visibility`` who may see and call the
        tool: "model" and "app" (the page), or one of them. Clients that do not show pages see neither.

        Raises:
            ConfigError: the name is taken and ``replace`` is not set, or a schema is not valid.
        """
        name = name_of("tool", function, name)
        if (name in self.entries or (self._switches is not None and name in self._switches.off)) and not replace:
            raise ConfigError(f"There is a tool {name} already")
        hints = _hints_of(annotations)
        repeatable = hints is not None and (hints.idempotent_hint is True or hints.read_only_hint is True)
        try:
            called = Function(
                self._runtime,
                function,
                f"tool {name}",
                structured=structured,
                repeatable=repeatable,
                strict=strict,
                unknown_arguments=unknown_arguments,
            )
        except ConfigError as error:
            raise ConfigError(f"The tool {name}: {error}") from None
        details: dict[str, Any] = {
            "title": title,
            "description": description,
            "annotations": hints,
            "icons": icons_of(icons),
            "meta": tagged(meta, labels := tags_of(tags)),
        }
        mask = self._runtime.mask_errors if mask_errors is None else mask_errors
        entry = RegisteredTool(name, details, called, structured, task, detaches, mask, tags=labels, when=when)
        if ui is not None or visibility is not None:
            from carrel.server.apps import tool_meta, use

            entry.ui = tool_meta(ui, visibility)
            details["meta"] = {**(details["meta"] or {}), "ui": entry.ui}
            self._have_pages = True
            use(self._runtime)
        if task != "forbidden":
            _ = self._runtime.tasks  # the server has tasks from now on
        entry.promise(input_schema, output_schema)
        self.guarded = self.guarded or when is not None
        self._put(name, entry)
        return function

    def remove(self, name: str) -> None:
        """Remove a tool, and notify clients that the list changed.

        Raises:
            KeyError: no such name.
        """
        if self._switches is None:
            self.entries.remove(name)
        else:
            self._switches.remove(name)
        self._changed((name,))

    def disable(self, *names: str, tags: Iterable[str] = ()) -> None:
        """Disable tools by name, or all tools with one of ``tags``, including later additions.

        Clients see them as missing until they are enabled again, and are notified that the list changed.

        Raises:
            KeyError: no such name.
        """
        self._switch().disable(names, tags_of(tags))

    def enable(self, *names: str, tags: Iterable[str] = ()) -> None:
        """Enable tools that were disabled by the same name or tags.

        Raises:
            KeyError: no such name.
        """
        self._switch().enable(names, tags_of(tags))

    def _switch(self) -> Switches[RegisteredTool]:
        if self._switches is None:
            from carrel.server.visibility import Switches  # few servers disable anything

            self._switches = Switches(self.entries, self._changed)
        return self._switches

    def _changed(self, names: Iterable[str]) -> None:
        self._runtime.notify(lists={"tools_list_changed": names})

    def _put(self, name: str, entry: RegisteredTool) -> None:
        if self._switches is None:
            self.entries.put(name, entry)
        else:
            self._switches.put(name, entry)
        self._changed((name,))

    def describe(self, peer: Peer | None) -> tuple[str, Callable[[RegisteredTool], Tool | None]]:
        """Return how tools are listed for a client: the key of its view, and a function that describes one of them.

        The key is empty where the list is the same for all clients. Without a peer, everything is described.
        """
        if not self._have_pages or peer is None:
            return "", RegisteredTool.describe
        from carrel.catalog.tool_pages import for_models, shows_pages, without_page

        if shows_pages(peer):
            return "pages", RegisteredTool.describe
        return "no pages", lambda entry: without_page(entry.describe()) if for_models(entry.ui) else None

    @property
    def exposes_errors(self) -> bool:
        """Whether there is a tool that sends the messages of all its exceptions to models."""
        return any(not entry.mask_errors for entry in self.entries)

    @property
    def pages(self) -> Iterator[tuple[str, str]]:
        """The names of tools that refer to a page, each with the URI of the page."""
        for entry in self.entries:
            if entry.ui is not None and "resourceUri" in entry.ui:
                yield entry.name, entry.ui["resourceUri"]

    def call(self, name: str, raw: Raw, call: Call, channel: Channel, *, permitted: bool = False) -> Any:
        """Return the result of a tool, or an awaitable of it; ``raw`` are its arguments as the client sent them.

        ``permitted``: the tool's ``when`` has already allowed the call.

        Raises:
            InvalidParams: there is no such tool, or, before 2025-11-25, the arguments are not valid.
        """
        entry = self.entries.entries.get(name)
        if entry is None:
            raise unknown_tool(name)
        if entry.when is not None and not permitted:
            return self._call_if_permitted(entry, raw, call, channel)
        if call.raw_headers is not None and call.peer.revision.stateless and entry.header_parameters():
            from carrel.protocol.http import verify_parameters

            verify_parameters(entry.header_parameters(), call.raw_headers, _read_object(raw))
        try:
            if entry.input is None:
                arguments = entry.function.signature.decode(raw)
            else:
                arguments = _read_object(raw)
                entry.input.validate(arguments, raw)
        except InvalidArguments as error:
            if call.peer.revision.argument_errors_in_results:
                return CallToolResult(content=[TextContent(f"Invalid arguments: {error}")], is_error=True)
            raise InvalidParams(f"Invalid params: {error}", parameter=error.parameter) from None
        if entry.task != "forbidden" or (call.params.task is not None and self._runtime.has_tasks):
            from carrel.server.tasks.calls import call_as_task

            work = partial(run, entry, arguments, call)
            tasks = cast("Tasks", self._runtime.tasks)
            answer = call_as_task(tasks, call, channel, entry.name, entry.task, work, detaches=entry.detaches)
            if answer is not None:
                return answer
        try:
            value = entry.function.invoke(arguments, call, channel)
            if entry.function.immediate:
                return result_of(value, entry)
        except BaseException as error:  # each exception of a tool is its result
            return failure_of(error, entry, stateless=call.peer.revision.stateless)
        return self._call_later(value, entry, call.peer.revision.stateless)

    async def _call_if_permitted(self, entry: RegisteredTool, raw: Raw, call: Call, channel: Channel) -> Any:
        from carrel.server.visibility import is_permitted

        if not await is_permitted(f"tool {entry.name}", entry.when, Context(self._runtime, call, channel)):
            raise unknown_tool(entry.name)
        return await resolved(self.call(entry.name, raw, call, channel, permitted=True))

    @staticmethod
    async def _call_later(pending: Any, entry: RegisteredTool, stateless: bool) -> CallToolResult:
        try:
            return result_of(await pending, entry)
        except BaseException as error:
            return failure_of(error, entry, stateless=stateless)


def unknown_tool(name: str) -> InvalidParams:
    """Return the error for a tool that does not exist."""
    return InvalidParams(f"Invalid params: unknown tool: {name[:200]}", parameter="name")


def _hints_of(annotations: ToolAnnotations | dict[str, Any] | None) -> ToolAnnotations | None:
    """Return the annotations of a tool as a wire type; None if they are empty."""
    hints = None if annotations is None else read_struct(annotations, ToolAnnotations, "annotations")
    return None if hints is None or hints == ToolAnnotations() else hints


async def run(entry: RegisteredTool, arguments: dict[str, Any], call: Call, channel: Channel) -> CallToolResult:
    """Call a tool, wait for its end, and return its result.

    Raises:
        ProtocolError: the tool raised an error of the protocol.
    """
    try:
        value = entry.function.invoke(arguments, call, channel)
        return result_of(value if entry.function.immediate else await value, entry)
    except BaseException as error:
        return failure_of(error, entry, stateless=call.peer.revision.stateless)


def _read_object(raw: Raw) -> dict[str, Any]:
    try:
        return msgspec.json.decode(raw, type=dict[str, Any])
    except msgspec.ValidationError as error:
        raise InvalidParams(f"Invalid params: arguments: {error}", parameter="arguments") from None


def failure_of(error: BaseException, entry: RegisteredTool, *, stateless: bool) -> CallToolResult:
    """Convert an exception of a tool to a result that the model can read.

    Raises:
        ProtocolError: the error is one of the protocol, not of the tool.
        BaseException: it ends the function for another reason: required input, a cancellation, Ctrl-C.
    """
    if isinstance(error, BaseExceptionGroup):
        required, others = error.split(InputRequired)
        if required is not None:
            if others is None:
                raise error
            error = others
    elif isinstance(error, InputRequired | asyncio.CancelledError | GeneratorExit) or is_interrupt(error):
        raise error
    if isinstance(error, ProtocolError) and not (isinstance(error, MissingCapability) and not stateless):
        raise error
    if isinstance(error, ResourceForbidden):
        error = ResourceNotFound(error.uri)  # a hidden resource does not exist for the caller
    return CallToolResult(content=[TextContent(_explain(error, entry))], is_error=True)


def _explain(error: BaseException, entry: RegisteredTool) -> str:
    """Return the message that the model gets for an error, and log the error."""
    words, name = message_of(error), f"tool {entry.name}"
    if isinstance(error, ToolError):
        log.info("%s failed on purpose: %s", name, words)
        return words
    reference = log_failure(name, error)
    if entry.mask_errors:
        return MaskedError(reference).message
    if isinstance(error, MCPError) and not isinstance(error, ConfigError):
        return words
    return f"{words} (reference {reference})"
