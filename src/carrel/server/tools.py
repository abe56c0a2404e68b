"""Tools of a server: registration, tools/list and tools/call.

https://modelcontextprotocol.io/specification/2026-07-28/server/tools
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec
from msgspec import UNSET, Raw, UnsetType

from carrel.catalog.listing import Listing
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
from carrel.protocol.http import header_parameters, verify_parameters
from carrel.protocol.json_values import InvalidArguments, to_json
from carrel.server.elicitation.input_required import InputRequired
from carrel.server.failures import Hidden, is_interrupt, log_failure, words_of
from carrel.server.invocation import Function
from carrel.server.metadata import Meta, icons_of, read_struct
from carrel.server.options import TaskSupport
from carrel.wire.base import Icon
from carrel.wire.content import AudioContent, ContentBlock, EmbeddedResource, ImageContent, ResourceLink, TextContent
from carrel.wire.resources import BlobResourceContents, Resource, TextResourceContents
from carrel.wire.tools import CallToolResult, Tool, ToolAnnotations, ToolExecution

if TYPE_CHECKING:
    from carrel.protocol.channel import Channel
    from carrel.protocol.connection import Peer
    from carrel.protocol.json_schema import Validator
    from carrel.protocol.server import Call
    from carrel.server.runtime import Runtime
    from carrel.server.tasks.tasks import Tasks

__all__ = ["RegisteredTool", "Tools", "block_of", "result_of", "run"]

F = TypeVar("F", bound=Callable[..., Any])

BLOCKS = (TextContent, ImageContent, AudioContent, ResourceLink, EmbeddedResource)
CONTENT = (*BLOCKS, TextResourceContents, BlobResourceContents, Resource)
PLAIN = frozenset((str, int, float, bool))
#: Types whose values always fit the schema of the type; floats do not, since JSON has no word for NaN.
EXACT = (str, int, bool)
#: Keywords of an object schema that do not constrain its members.
ANY_OBJECT = {"type", "title", "description", "additionalProperties"}
log = Log("carrel")


class RegisteredTool(msgspec.Struct, eq=False):
    """A registered tool. Its wire form for tools/list is made on first use."""

    name: str
    details: dict[str, Any]
    function: Function
    structured: bool | None
    task: TaskSupport = "forbidden"
    detaches: bool = False
    mask_errors: bool = False
    """Whether exceptions other than ToolError are hidden from models."""
    input: Validator | None = None
    output: Validator | UnsetType | None = UNSET
    """Validator of results; UNSET until it is known whether the return annotation has a schema."""
    exact: type | None = None
    """A type whose values always fit their schema, and are not checked."""
    tool: Tool | None = None
    headers: Mapping[bytes, tuple[str, ...]] | None = None
    ui: dict[str, Any] | None = None
    """``_meta.ui``: the page that shows its results, and its visibility."""

    def describe(self) -> Tool:
        """Return the tool as it is listed."""
        if self.tool is None:
            signature = self.function.signature
            output = self.find_output()
            self.details["description"] = self.details["description"] or signature.description
            self.tool = Tool(
                name=self.name,
                input_schema=signature.input_schema if self.input is None else self.input.schema,
                output_schema=None if output is None else output.schema,
                execution=None if self.task == "forbidden" else ToolExecution(task_support=self.task),
                **self.details,
            )
        return self.tool

    def promise(self, input_schema: dict[str, Any] | None, output_schema: dict[str, Any] | None) -> None:
        """Set the schemas that are given by hand, and check what can be checked at registration.

        Raises:
            ConfigError: a schema is refused, contradicts something else, or is missing.
        """
        if input_schema is not None and input_schema.get("type") != "object":
            raise ConfigError(f'{self.name}: input_schema must have "type": "object"')
        if self.structured is False and output_schema is not None:
            raise ConfigError(f"{self.name}: structured=False leaves out what output_schema describes")
        try:
            if input_schema is not None or output_schema is not None:
                from carrel.protocol.json_schema import Validator

                self.headers = None if input_schema is None else header_parameters(input_schema)
                self.input = None if input_schema is None else Validator(input_schema)
                self.output = UNSET if output_schema is None else Validator(output_schema, "result")
            if self.output is UNSET and self.function.signature.returns_no_object:
                self.output = None
            if self.structured:
                self.find_output()
        except (ConfigError, ValueError) as error:
            raise ConfigError(f"The tool {self.name}: {error}") from None

    def find_output(self) -> Validator | None:
        """Return the validator of results, by the schema that is listed; None if there is none.

        Raises:
            ConfigError: structured results were asked for, and their type is unknown, has no schema or a refused one.
        """
        if self.output is UNSET:
            from carrel.protocol.json_schema import Validator

            signature = self.function.signature
            schema = signature.output_schema
            try:
                self.output = None if schema is None else Validator(schema, "result", foreign=True)
            except ConfigError as error:
                if self.structured:
                    raise
                log.warning("tool %s has no output schema: %s", self.name, error)
                self.output = None
            if schema is not None and self.output is not None:
                if signature.returns in EXACT:
                    self.exact = signature.returns
                elif schema.keys() <= ANY_OBJECT and schema.get("additionalProperties", True) is True:
                    self.exact = dict
        return self.output

    def header_parameters(self) -> Mapping[bytes, tuple[str, ...]]:
        """Return the arguments that HTTP requests repeat in headers."""
        if self.headers is None:
            self.headers = header_parameters(self.describe().input_schema)
        return self.headers


class Tools:
    """Registry of tools, and handlers of their requests. ``app.tools`` is one."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.entries: Listing[RegisteredTool] = Listing()
        """Registered tools, by name."""
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
        task: TaskSupport = "forbidden",
        detaches: bool = False,
        ui: str | None = None,
        visibility: Iterable[str] | None = None,
        meta: Meta | None = None,
        replace: bool = False,
    ) -> F:
        """Register a function as a tool, and notify clients that the list changed.

        The schema of the arguments comes from the signature, unless ``input_schema`` gives one (JSON Schema 2020-12, or
        the dialect of its ``$schema``); then the function gets them as they are. ``structured=False`` keeps the result
        out of ``structuredContent``, ``True`` puts it there whatever it is. ``mask_errors`` is that of the server if it
        is not given.

        ``task`` says whether a call may ("optional") or must ("required") become a task, whose result is fetched later;
        with ``detaches`` it does so when the function calls ``context.detach()``, and otherwise at once.

        ``ui`` is the URI of a page (see ``Server.ui``) that shows the results, ``visibility`` who may see and call the
        tool: "model" and "app" (the page), or one of them. Clients that do not show pages see neither.

        Raises:
            ConfigError: the name is taken and ``replace`` is not set, or a schema is not valid.
        """
        name = name or str(getattr(function, "__name__", type(function).__name__))
        if name in self.entries and not replace:
            raise ConfigError(f"There is a tool {name} already")
        hints = _hints_of(annotations)
        repeatable = hints is not None and (hints.idempotent_hint is True or hints.read_only_hint is True)
        try:
            called = Function(self._runtime, function, f"tool {name}", structured=structured, repeatable=repeatable)
        except ConfigError as error:
            raise ConfigError(f"The tool {name}: {error}") from None
        details: dict[str, Any] = {
            "title": title,
            "description": description,
            "annotations": hints,
            "icons": icons_of(icons),
            "meta": meta,
        }
        mask = self._runtime.mask_errors if mask_errors is None else mask_errors
        entry = RegisteredTool(name, details, called, structured, task, detaches, mask)
        if ui is not None or visibility is not None:
            from carrel.server.apps import tool_meta, use

            entry.ui = tool_meta(ui, visibility)
            details["meta"] = {**(meta or {}), "ui": entry.ui}
            self._have_pages = True
            use(self._runtime)
        if task != "forbidden":
            _ = self._runtime.tasks  # the server has tasks from now on
        entry.promise(input_schema, output_schema)
        self.entries.put(name, entry)
        self._runtime.announce(lists=("tools_list_changed",))
        return function

    def remove(self, name: str) -> None:
        """Remove a tool, and notify clients that the list changed.

        Raises:
            KeyError: there is none of that name.
        """
        self.entries.remove(name)
        self._runtime.announce(lists=("tools_list_changed",))

    def describe(self, peer: Peer | None) -> tuple[str, Callable[[RegisteredTool], Tool | None]]:
        """Return how tools are listed for a client: the key of its view, and a function that describes one of them.

        The key is empty where the list is the same for all clients. Without a peer, everything is described.
        """
        if not self._have_pages or peer is None:
            return "", RegisteredTool.describe
        from carrel.server.apps import for_models, shows_pages, without_page

        if shows_pages(peer):
            return "pages", RegisteredTool.describe
        return "no pages", lambda entry: without_page(entry.describe()) if for_models(entry.ui) else None

    @property
    def tells_errors(self) -> bool:
        """Whether there is a tool that sends the messages of all its exceptions to models."""
        return any(not entry.mask_errors for entry in self.entries)

    @property
    def pages(self) -> Iterator[tuple[str, str]]:
        """The names of tools that refer to a page, each with the URI of the page."""
        for entry in self.entries:
            if entry.ui is not None and "resourceUri" in entry.ui:
                yield entry.name, entry.ui["resourceUri"]

    def call(self, name: str, raw: Raw, call: Call, channel: Channel) -> Any:
        """Return the result of a tool, or an awaitable of it; ``raw`` are its arguments as the client sent them.

        Raises:
            InvalidParams: there is no such tool, or, before 2025-11-25, the arguments are not valid.
        """
        entry = self.entries.entries.get(name)
        if entry is None:
            raise InvalidParams(f"Invalid params: unknown tool: {name[:200]}", parameter="name")
        if call.headers is not None and call.peer.revision.stateless and entry.header_parameters():
            verify_parameters(entry.header_parameters(), call.headers, _read_object(raw))
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
        except BaseException as error:  # whatever a tool raises is its result
            return failure_of(error, entry, stateless=call.peer.revision.stateless)
        return self._call_later(value, entry, call.peer.revision.stateless)

    @staticmethod
    async def _call_later(pending: Any, entry: RegisteredTool, stateless: bool) -> CallToolResult:
        try:
            return result_of(await pending, entry)
        except BaseException as error:
            return failure_of(error, entry, stateless=stateless)


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
        BaseException: it ends the function for another reason: a question, a cancellation, Ctrl-C.
    """
    if isinstance(error, BaseExceptionGroup):
        questions, others = error.split(InputRequired)
        if questions is not None:
            if others is None:
                raise error
            error = others
    elif isinstance(error, InputRequired | asyncio.CancelledError | GeneratorExit) or is_interrupt(error):
        raise error
    if isinstance(error, ProtocolError) and not (isinstance(error, MissingCapability) and not stateless):
        raise error
    if isinstance(error, ResourceForbidden):
        error = ResourceNotFound(error.uri)  # what may not be read does not exist
    return CallToolResult(content=[TextContent(_explain(error, entry))], is_error=True)


def _explain(error: BaseException, entry: RegisteredTool) -> str:
    """Return the message that the model gets for an error, and log the error."""
    words, name = words_of(error), f"tool {entry.name}"
    if isinstance(error, ToolError):
        log.info("%s failed on purpose: %s", name, words)
        return words
    reference = log_failure(name, error)
    if entry.mask_errors:
        return Hidden(reference).message
    if isinstance(error, MCPError) and not isinstance(error, ConfigError):
        return words
    return f"{words} (reference {reference})"


def result_of(value: Any, entry: RegisteredTool) -> CallToolResult:
    """Convert the return value of a tool function to a result.

    Text and content blocks become content, several of them stay several. Everything else becomes JSON text, and
    structured content too if it is an object or the tool has an output schema. A value that does not fit an output
    schema becomes an error that says what does not fit.

    Raises:
        TypeError: the value cannot be turned into JSON.
    """
    output = entry.output
    if output is UNSET:
        output = entry.find_output()
    if output is not None:
        return _checked_result(value, entry, output)
    if type(value) in PLAIN:
        return CallToolResult(content=[TextContent(value if type(value) is str else to_json(value).decode())])
    if isinstance(value, CallToolResult):
        return value
    if value is None:
        return CallToolResult(content=[])
    content = _content_of(value)
    if content is not None:
        return CallToolResult(content=content)
    plain = entry.function.signature.encode(value)
    content = [TextContent(plain if isinstance(plain, str) else to_json(plain).decode())]
    if isinstance(plain, dict) and entry.structured is not False:
        return CallToolResult(content=content, structured_content=plain)
    return CallToolResult(content=content)


def _checked_result(value: Any, entry: RegisteredTool, output: Validator) -> CallToolResult:
    """Convert the return value of a tool function to a result with structured content that fits the output schema."""
    try:
        if isinstance(value, CallToolResult):
            if value.is_error is not True:
                if value.structured_content is UNSET:
                    raise InvalidArguments("There is no structured content")
                output.validate(value.structured_content)
            return value
        if _content_of(value) is not None:
            raise InvalidArguments("There is content, but no structured content; CallToolResult has both")
        plain = entry.function.signature.encode(value)
        text = to_json(plain)
        if type(value) is not entry.exact:
            output.validate(plain, text)
    except InvalidArguments as error:
        log.error("the result of tool %s does not conform to its output schema: %s", entry.name, error)
        problem = f"{entry.name}: the result does not conform to the output schema: {error}"
        return CallToolResult(content=[TextContent(problem)], is_error=True)
    content = TextContent(plain if isinstance(plain, str) else text.decode())
    return CallToolResult(content=[content], structured_content=plain)


def _content_of(value: Any) -> list[ContentBlock] | None:
    """Return the content blocks that a value is; None if it is data."""
    if isinstance(value, CONTENT):
        return [block_of(value)]
    if isinstance(value, (list, tuple)) and any(isinstance(item, CONTENT) for item in value):
        return [block_of(item) for item in value]
    return None


def block_of(value: Any) -> ContentBlock:
    """Convert one value to a content block: text, a block as it is, contents embedded, a resource linked, else JSON.

    Raises:
        TypeError: the value cannot be turned into JSON.
    """
    if isinstance(value, str):
        return TextContent(value)
    if isinstance(value, BLOCKS):
        return value
    if isinstance(value, TextResourceContents | BlobResourceContents):
        return EmbeddedResource(value)
    if isinstance(value, Resource):
        return ResourceLink(**{field: getattr(value, field) for field in Resource.__struct_fields__})
    return TextContent(to_json(value).decode())
