"""Tools of a server: registration, tools/list and tools/call.

https://modelcontextprotocol.io/specification/2026-07-28/server/tools
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

import msgspec
from msgspec import Raw

from carrel.awaitables import MaybeAwaitable
from carrel.catalog.request import InputRequired
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
from carrel.protocol.methods import LIST_TOOLS
from carrel.server.context import Context
from carrel.server.failures import MaskedError, is_interrupt, log_failure, message_of
from carrel.server.invocation import Function
from carrel.server.options import ToolOptions, check_options, details_of, name_of, read_struct, visibility_of
from carrel.server.registered_tool import RegisteredTool
from carrel.server.registry import ItemRegistry, run_if_permitted
from carrel.server.results import result_of
from carrel.wire.base import Result
from carrel.wire.content import TextContent
from carrel.wire.tools import CallToolResult, Tool, ToolAnnotations

if TYPE_CHECKING:
    from carrel.protocol.channel import Channel
    from carrel.protocol.connection import Peer
    from carrel.protocol.server import Call
    from carrel.server.runtime import Runtime

__all__ = ["Tools", "run"]

F = TypeVar("F", bound=Callable[..., Any])

log = Log("carrel")


class Tools(ItemRegistry[RegisteredTool]):
    """Registry of tools, and handlers of their requests. ``app.tools`` is one."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(runtime, LIST_TOOLS)
        self._have_pages = False

    def add(self, function: F, *, name: str | None = None, replace: bool = False, **options: Unpack[ToolOptions]) -> F:
        """Register a function as a tool, and notify clients that the list changed.

        The schema of the arguments comes from the signature, unless ``input_schema`` gives one (JSON Schema 2020-12, or
        the dialect of its ``$schema``); then the function gets them unchanged. ``structured=False`` keeps the result
        out of ``structuredContent``, ``True`` always puts it there.

        With ``strict``, arguments must match the schema; otherwise the text "5" is read as an integer, and so on.
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
        check_options("tools.add()", options, ToolOptions.__annotations__)
        name = name_of("tool", function, name)
        if not replace:
            self.check_free(name)
        hints = _hints_of(options.get("annotations"))
        repeatable = hints is not None and (hints.idempotent_hint is True or hints.read_only_hint is True)
        try:
            called = Function(self._runtime, function, f"tool {name}", repeatable=repeatable, options=options)
        except ConfigError as error:
            reason = str(error).removeprefix(f"tool {name}: ")
            raise ConfigError(f"The tool {name}: {reason}") from None
        masks = options.get("mask_errors")
        entry = RegisteredTool(
            name,
            {**details_of(options), "annotations": hints},
            called,
            options.get("structured"),
            options.get("task", "forbidden"),
            options.get("detaches", False),
            self._runtime.settings.mask_errors if masks is None else masks,
            **visibility_of(options),
        )
        self._show_page(entry, options.get("ui"), options.get("visibility"))
        if entry.task != "forbidden":
            _ = self._runtime.tasks  # the server has tasks from now on
        entry.set_schemas(options.get("input_schema"), options.get("output_schema"))
        self.put(name, entry)
        return function

    def _show_page(self, entry: RegisteredTool, ui: str | None, visibility: Iterable[str] | None) -> None:
        if ui is not None or visibility is not None:
            from carrel.server.apps import tool_meta, use

            entry.ui = tool_meta(ui, visibility)
            entry.details["meta"] = {**(entry.details["meta"] or {}), "ui": entry.ui}
            self._have_pages = True
            use(self._runtime)

    def describe(self, peer: Peer | None) -> tuple[str, Callable[[RegisteredTool], Tool | None]]:
        """Return how tools are listed for a client: the key of the variant, and a function that describes a tool."""
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

    def call(
        self, name: str, raw: Raw, call: Call, channel: Channel, *, permitted: bool = False
    ) -> MaybeAwaitable[Result | bytes]:
        """Return the result of a tool, or an awaitable of it; ``raw`` are its arguments as the client sent them.

        ``permitted``: the tool's ``when`` has already allowed the call.

        Raises:
            InvalidParams: there is no such tool, or, before 2025-11-25, the arguments are not valid.
        """
        entry = self.entries.entries.get(name)
        if entry is None:
            raise unknown_tool(name)
        if entry.when is not None and not permitted:
            again = partial(self.call, name, raw, call, channel, permitted=True)
            context: Context[Any] = Context(self._runtime, call, channel)
            return run_if_permitted(f"tool {name}", entry.when, context, again, unknown_tool(name))
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
            work = partial(run, entry, arguments, call)
            answer = self._runtime.tasks.call_tool(call, channel, entry.task, work, detaches=entry.detaches)
            if answer is not None:
                return answer
        if not entry.function.immediate:
            return run(entry, arguments, call, channel)
        try:
            return result_of(entry.function.invoke(arguments, call, channel), entry)
        except BaseException as error:  # each exception of a tool is its result
            return failure_of(error, entry, stateless=call.peer.revision.stateless)


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
