"""Data of the API of the page, as JSON: bodies of responses, and the events of the stream."""

from __future__ import annotations

from typing import Any, Generic, Literal, TypeAlias, TypeVar

import msgspec

from carrel.context.results import Reason
from carrel.host.hosted_server import Cause
from carrel.wire.tasks import TaskStatus

__all__ = [
    "Changes",
    "Check",
    "Chip",
    "Completions",
    "ContentHit",
    "Counts",
    "DiffLine",
    "DocumentPage",
    "Hunk",
    "Item",
    "ItemKind",
    "Key",
    "ListWindow",
    "OperationKind",
    "OperationView",
    "Pack",
    "PackItem",
    "PageEvent",
    "Part",
    "Place",
    "Problem",
    "ProgressView",
    "QuestionView",
    "Row",
    "SampledMessage",
    "SamplingView",
    "SearchResult",
    "ServerStatus",
    "StudioState",
    "TaskView",
    "TextKind",
    "TextView",
    "TreeRow",
]

T = TypeVar("T")
ItemKind: TypeAlias = Literal["resource", "template", "tool", "prompt", "skill"]
OperationKind: TypeAlias = Literal[
    "read", "call", "get", "complete", "context", "search", "chat", "models", "wire", "doctor"
]
TextKind: TypeAlias = Literal[
    "text",
    "markdown",
    "json",
    "csv",
    "code",
    "image",
    "audio",
    "video",
    "pdf",
    "html",
    "document",
    "svg",
    "binary",
    "folder",
]


class Payload(msgspec.Struct, rename="camel", frozen=True):
    """Base class of the JSON that the API returns: members are camelCase, and always present."""


class Problem(Payload, frozen=True, kw_only=True):
    """Error response (RFC 9457)."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str


class Key(Payload, frozen=True, kw_only=True):
    """Server and URI of a resource."""

    server: str
    uri: str


class Check(Payload, frozen=True, kw_only=True):
    """Step of connecting to a server. ``ok`` is None for a step that was not reached."""

    step: Literal["dns", "tcp", "tls", "http", "version", "authorization", "program", "initialize"]
    ok: bool | None
    detail: str


class Counts(Payload, frozen=True, kw_only=True):
    """Lengths of the lists of a server, None if unknown."""

    resources: int | None = None
    templates: int | None = None
    tools: int | None = None
    prompts: int | None = None


class ServerStatus(Payload, frozen=True, kw_only=True):
    """State of a server. ``latency`` is in milliseconds. ``tasks``: the server may make a task of any call.

    ``cause`` is the kind of the failure that ``reason`` describes in English.
    """

    name: str
    title: str | None
    icon: str | None
    description: str | None
    state: Literal["idle", "connecting", "ready", "failed", "disabled", "closed"]
    reason: str | None
    cause: Cause | None
    revision: str | None
    software: str | None
    transport: Literal["stdio", "http", "memory"]
    latency: float | None
    instructions: str | None
    counts: Counts
    checklist: tuple[Check, ...]
    stderr: bool
    tasks: bool


class SampledMessage(Payload, frozen=True, kw_only=True):
    """Message of a sampling request. ``others`` describes contents that are not text."""

    role: str
    text: str
    others: tuple[str, ...]


class SamplingView(Payload, frozen=True, kw_only=True):
    """Sampling request of a server: to be run if ``answer`` is None, or else with the answer, to be sent.

    ``tools`` are the names of tools that the model may use, ``calls`` are the calls in the answer, as JSON.
    """

    messages: tuple[SampledMessage, ...]
    system_prompt: str | None
    max_tokens: int
    tools: tuple[str, ...]
    model: str | None
    answer: str | None = None
    calls: tuple[str, ...] = ()


class QuestionView(Payload, frozen=True, kw_only=True):
    """Request of a server to the user."""

    id: str
    server: str
    kind: Literal["form", "url", "sampling"]
    message: str
    schema: dict[str, Any] | None = None
    url: str | None = None
    host: str | None = None
    sampling: SamplingView | None = None


class StudioState(Payload, frozen=True, kw_only=True):
    """State of the host. ``seq`` is the number of the last event, to continue with the stream of events.

    ``recording`` is the name of the session file that the timeline shows.
    """

    version: str
    seq: int
    servers: tuple[ServerStatus, ...]
    questions: tuple[QuestionView, ...]
    tasks: tuple[TaskView, ...]
    model: str | None
    searching: bool
    recording: str | None


class Row(Payload, frozen=True, kw_only=True):
    """Entry of a list, as a picker shows it. The URI of the key is the name of a tool or prompt.

    ``icon`` is a data URI.
    """

    key: Key
    kind: ItemKind
    name: str
    title: str
    description: str | None
    mime_type: str | None
    size: int | None
    last_modified: str | None
    priority: float | None
    audience: tuple[str, ...] | None
    icon: str | None


class TreeRow(Payload, frozen=True, kw_only=True):
    """Row of the tree. ``count`` is the number of resources below, if known.

    ``message`` says why a server has no list, or why a directory cannot be read. ``directory``: opening the row reads a
    directory, and how far that is.
    """

    id: str
    level: int
    label: str
    kind: Literal["server", "folder", "resource"]
    server: str
    uri: str | None
    expandable: bool
    row: Row | None
    count: int | None
    message: str | None
    directory: Literal["unread", "reading", "read", "partial", "failed"] | None = None


class Place(Payload, frozen=True, kw_only=True):
    """Place of a resource in the tree: nodes to open, and its row then. ``index`` is None if it is not in the tree."""

    open: tuple[str, ...]
    index: int | None


class ListWindow(Payload, Generic[T], frozen=True, kw_only=True):
    """Window of a list. ``seq`` is the number of the last event at that time."""

    total: int
    offset: int
    rows: tuple[T, ...]
    seq: int


class Item(Payload, frozen=True, kw_only=True):
    """Entry of a list as on the wire, and its icon that can be shown."""

    key: Key
    kind: ItemKind
    icon: str | None
    item: dict[str, Any]


class Part(Payload, frozen=True, kw_only=True):
    """Part of a resource with several contents."""

    uri: str
    mime_type: str
    size: int


class TextView(Payload, frozen=True, kw_only=True):
    """Contents of a resource, or a window of its lines. ``version`` is a hash of the contents.

    ``lines`` is the number of lines, None if unknown. Each line of ``hex`` shows 16 bytes.
    """

    key: Key
    version: str
    title: str
    mime_type: str
    kind: TextKind
    language: str | None
    size: int
    lines: int | None
    first: int
    text: str | None
    hex: str | None
    parts: tuple[Part, ...]
    annotations: dict[str, Any] | None
    changed: bool
    reads: tuple[Row, ...]


class DocumentPage(Payload, frozen=True, kw_only=True):
    """Text of a page of a document, as Markdown. Pages count from 1."""

    page: int
    pages: int
    text: str


class DiffLine(Payload, frozen=True, kw_only=True):
    """Line of a difference, with its number in the old and in the new text."""

    kind: Literal[" ", "+", "-"]
    text: str
    old: int | None
    new: int | None


class Hunk(Payload, frozen=True, kw_only=True):
    """Changed lines with the lines around them. ``first`` are the numbers of the first old and the first new line."""

    first: tuple[int, int]
    lines: tuple[DiffLine, ...]


class Changes(Payload, frozen=True, kw_only=True):
    """Difference between two versions of a resource. ``complete``: it has all changed lines."""

    from_: str = msgspec.field(name="from")
    to: str
    hunks: tuple[Hunk, ...]
    complete: bool = True


class ContentHit(Payload, frozen=True, kw_only=True):
    """Match of a content search. ``line`` is the best line, ``marks`` are ranges of characters in ``snippet``.

    ``line`` is absent if only the name matches. It counts in the text of ``link``.
    """

    row: Row
    score: float
    link: str
    line: int | None
    snippet: str
    marks: tuple[tuple[int, int], ...]


class SearchResult(Payload, frozen=True, kw_only=True):
    """Matches of a content search, best first. ``complete``: all resources were searched."""

    hits: tuple[ContentHit, ...]
    complete: bool


class Chip(Payload, frozen=True, kw_only=True):
    """Term of a filter, with its range of characters. ``problem`` says why the value is invalid."""

    text: str
    field: str | None
    value: str
    negated: bool
    start: int
    end: int
    problem: str | None


class ProgressView(Payload, frozen=True, kw_only=True):
    """Progress of an operation, as the server has reported it."""

    progress: float
    total: float | None
    message: str | None


class OperationView(Payload, frozen=True, kw_only=True):
    """Request that takes time. ``result`` is the body that an immediate response would have."""

    id: str
    kind: OperationKind
    state: Literal["running", "done", "failed", "cancelled"]
    progress: ProgressView | None
    result: Any
    error: Problem | None


class TaskView(Payload, frozen=True, kw_only=True):
    """Task: a tool call that continues on its server. ``id`` is the page's. Times are ISO 8601."""

    id: str
    server: str
    tool: str
    arguments: dict[str, Any]
    status: TaskStatus
    message: str | None
    created: str
    updated: str
    error: Problem | None


class PackItem(Payload, frozen=True, kw_only=True):
    """Item of a packed context. ``stale``: the resource has changed since. The lines count in the text of ``link``."""

    server: str
    uri: str
    link: str
    title: str
    lines: tuple[int, int] | None
    tokens: int
    score: float
    reason: str
    why: Reason
    text: str
    stale: bool


class LeftOutItem(Payload, frozen=True, kw_only=True):
    """Resource that is not in a packed context, with the reason."""

    uri: str
    reason: str


class Pack(Payload, frozen=True, kw_only=True):
    """Packed context. ``text`` is the whole text for a model. ``model_tokens`` were taken by a model to choose.

    ``unread`` are the names of servers whose resources were not all searched.
    """

    question: str
    budget: int
    tokens: int
    tokenizer: str
    items: tuple[PackItem, ...]
    left_out: tuple[LeftOutItem, ...]
    complete: bool
    unread: tuple[str, ...]
    text: str
    model_tokens: int


class PageEvent(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """Event of the stream. Which members it has depends on ``type``."""

    seq: int
    type: Literal[
        "server",
        "serverGone",
        "list",
        "resource",
        "operation",
        "question",
        "questionClosed",
        "task",
        "taskGone",
        "chat",
        "wire",
        "doctor",
        "interface",
        "reset",
    ]
    server: ServerStatus | str | None = None
    name: str | None = None
    kind: ItemKind | None = None
    key: Key | None = None
    version: str | None = None
    operation: OperationView | None = None
    question: QuestionView | None = None
    task: TaskView | None = None
    id: str | None = None

    @property
    def subject(self) -> tuple[object, ...]:
        """Subject of the event: a later event with the same subject replaces it."""
        server = self.server.name if isinstance(self.server, ServerStatus) else self.server
        operation = None if self.operation is None else self.operation.id
        asked = self.question or self.task
        question = self.id if asked is None else asked.id
        kind = self.type.removesuffix("Gone").removesuffix("Closed")
        key = None if self.key is None else (self.key.server, self.key.uri)
        return kind, server or self.name, self.kind, key, operation, question


class Completions(Payload, frozen=True, kw_only=True):
    """Completions of a value."""

    values: tuple[str, ...]
    total: int | None
    has_more: bool
