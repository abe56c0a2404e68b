"""Table of all methods of the five revisions: one row per method, with every property that depends on it.

A revision (``carrel.protocol.revisions``) lists the rows that it has. The methods of extensions have rows of the same
type, in ``carrel.protocol.extensions``.

https://modelcontextprotocol.io/specification/2026-07-28/schema
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar, get_args

import msgspec
from msgspec import field

from carrel.wire.base import PageParams, Params, Result, Wire
from carrel.wire.client_features import (
    CreateMessageParams,
    CreateMessageResult,
    ElicitationCompleteParams,
    ElicitParams,
    ElicitResult,
    ListRootsParams,
    ListRootsResult,
)
from carrel.wire.completion import CompleteParams, CompleteResult
from carrel.wire.lifecycle import DiscoverResult, InitializeParams, InitializeResult
from carrel.wire.prompts import GetPromptParams, GetPromptResult, ListPromptsResult
from carrel.wire.resources import (
    AcknowledgedParams,
    ListenParams,
    ListenResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ReadResourceParams,
    ReadResourceResult,
    ResourceUpdatedParams,
    SubscribeParams,
)
from carrel.wire.tasks import ListTasksParams, ListTasksResult, Task, TaskParams
from carrel.wire.tools import CallToolParams, CallToolResult, ListToolsResult
from carrel.wire.utilities import CancelledParams, LoggingMessageParams, ProgressParams, SetLevelParams

if TYPE_CHECKING:
    from typing_extensions import TypeVar as DefaultTypeVar

    P = DefaultTypeVar("P", bound=Wire, default=Any)
    R = DefaultTypeVar("R", bound=Wire, default=Any, covariant=True)
else:
    P = TypeVar("P", bound=Wire)
    R = TypeVar("R", bound=Wire, covariant=True)

#: Verb that access control asks about.
Verb: TypeAlias = Literal["list", "read", "list_directory", "complete", "subscribe", "call", "get"]
#: Kind of the items in a list.
ItemKind: TypeAlias = Literal["resource", "template", "tool", "prompt", "skill"]
#: Name of a list whose clients are notified when it changes: the operation of its notification.
ListName: TypeAlias = Literal["tools_list_changed", "prompts_list_changed", "resources_list_changed"]
#: Server capability that declares notifications for changes of a list.
ListCapability: TypeAlias = Literal["resources", "tools", "prompts"]
#: Parameters that hold a resource URI, and that the rule for resources applies to unless the row names another one.
URI_FIELDS = ("uri", "ref")
#: Parameters that are no arguments of the methods of providers: parameters of every request, of lists, of tasks, and of
#: requests that a client repeats with the responses to server requests.
COMMON_FIELDS = frozenset(("meta", "cursor", "task", "input_responses", "request_state"))
#: Field of an item that has its name or URI.
ITEM_KEYS: dict[ItemKind, str] = {
    "resource": "uri",
    "template": "uri_template",
    "tool": "name",
    "prompt": "name",
    "skill": "uri",
}
#: Verb of a request about an item, unless its row names another one.
ITEM_VERBS: dict[ItemKind | None, Verb] = {"tool": "call", "prompt": "get"}
#: Targets that are resources.
RESOURCES = (*URI_FIELDS, "notifications.resource_subscriptions")


class AnyParams(Wire, kw_only=True):
    """Parameters of notifications without defined parameters: only ``_meta`` is decoded."""

    meta: dict[str, Any] | None = field(default=None, name="_meta")


class RequestType(msgspec.Struct, Generic[P, R], frozen=True, eq=False):
    """Row of a request method: its name on the wire, its operation name in Carrel, and all that depends on the method.

    ``target`` is the path of the parameter with the name or URI that a request is about. By default it is the parameter
    ``uri`` or ``ref``, if there is one, so that rules for resources also hold for the methods of extensions.
    """

    method: str
    operation: str
    params: type[P]
    result: type[R]
    capability: str | None = None
    """The server capability that the method requires; for requests of servers, the client capability."""
    idempotent: bool = False
    """A request may be sent again, although it may have been handled already."""
    asks: bool = False
    """The result may be an ``InputRequiredResult`` (2026-07-28)."""
    deferred: bool = False
    """The result may be a task."""
    endless: bool = False
    """The response comes when the server ends it, perhaps never."""
    cacheable: bool = False
    """Results have a freshness hint (2026-07-28), and may be cached."""
    stale_by: tuple[str, ...] = ()
    """Notifications, by operation name, that make cached results stale."""
    name_field: str | None = None
    """The parameter that is mirrored in the Mcp-Name header (2026-07-28, Streamable HTTP)."""
    verb: Verb | None = None
    """The verb that access control asks about; None for requests that are about no resource, tool or prompt.

    By default it is "read" if the target is a resource, "call" if it is a tool, "get" if it is a prompt."""
    provider_method: str = ""
    """The method of ``Provider`` that handles the request; empty if the server itself does."""
    result_field: str = ""
    """The field of the result for what this method returns: the items of a page, a skill or a completion; empty if the
    method returns the whole result."""
    item: ItemKind | None = None
    """The kind of the items that the request lists, or of the item that its target names."""
    item_verb: Verb | None = None
    """For a list: the verb that a caller must be allowed to use on an item to see it in the list."""
    cached_whole: bool = False
    """A gateway caches the whole list while the server notifies of its changes."""
    target: str | None = None
    arguments: tuple[str, ...] = ()
    """Names of the parameters that are arguments of the provider's method."""

    def __post_init__(self) -> None:
        change = msgspec.structs.force_setattr
        fields = self.params.__struct_fields__
        change(self, "arguments", tuple(name for name in fields if name not in COMMON_FIELDS))
        if self.target is None:
            change(self, "target", next((name for name in URI_FIELDS if name in fields), self.name_field))
        if self.verb is None and self.target is not None:
            change(self, "verb", "read" if self.names_resources else ITEM_VERBS.get(self.item))

    @property
    def names_resources(self) -> bool:
        """Whether the target is a resource, or several."""
        return self.target in RESOURCES

    def find_target(self, params: P) -> Any:
        """Return the target in the parameters of a request, or None."""
        value: Any = params
        for name in () if self.target is None else self.target.split("."):
            value = getattr(value, name, None)
        return None if value is params else value

    def find_targets(self, params: P) -> list[str]:
        """Return the names or URIs of the targets in the parameters of a request."""
        found = self.find_target(params)
        return [each for each in (found if isinstance(found, list) else [found]) if isinstance(each, str)]


class NotificationType(msgspec.Struct, frozen=True, eq=False):
    """Row of a notification method: its name on the wire, its operation name in Carrel, and its parameters."""

    method: str
    operation: str
    params: type[Wire] = AnyParams
    capability: ListCapability | None = None
    """For a changed list: the server capability that declares the notification."""
    items: tuple[ItemKind, ...] = ()
    """For a changed list: the kinds of its items."""


# Notifications of both sides

CANCELLED = NotificationType("notifications/cancelled", "cancelled", CancelledParams)
PROGRESS = NotificationType("notifications/progress", "progress", ProgressParams)

# Notifications of clients

INITIALIZED = NotificationType("notifications/initialized", "initialized", Params)
ROOTS_LIST_CHANGED = NotificationType("notifications/roots/list_changed", "roots_list_changed", Params)

# Notifications of servers

MESSAGE = NotificationType("notifications/message", "message", LoggingMessageParams)
PROMPTS_LIST_CHANGED = NotificationType(
    "notifications/prompts/list_changed", "prompts_list_changed", capability="prompts", items=("prompt",)
)
RESOURCE_UPDATED = NotificationType("notifications/resources/updated", "resource_updated", ResourceUpdatedParams)
RESOURCES_LIST_CHANGED = NotificationType(
    "notifications/resources/list_changed",
    "resources_list_changed",
    capability="resources",
    items=("resource", "template", "skill"),
)
TOOLS_LIST_CHANGED = NotificationType(
    "notifications/tools/list_changed", "tools_list_changed", capability="tools", items=("tool",)
)
ELICITATION_COMPLETE = NotificationType(
    "notifications/elicitation/complete", "elicitation_complete", ElicitationCompleteParams
)
TASK_STATUS = NotificationType("notifications/tasks/status", "task_status", Task)
SUBSCRIPTION_ACKNOWLEDGED = NotificationType(
    "notifications/subscriptions/acknowledged", "subscription_acknowledged", AcknowledgedParams
)

# Requests of both sides

PING = RequestType("ping", "ping", Params, Result, idempotent=True)

# Requests of clients: opening

INITIALIZE = RequestType("initialize", "initialize", InitializeParams, InitializeResult)
DISCOVER = RequestType("server/discover", "discover", Params, DiscoverResult, idempotent=True, cacheable=True)

# Resources

LIST_RESOURCES = RequestType(
    "resources/list",
    "list_resources",
    PageParams,
    ListResourcesResult,
    capability="resources",
    idempotent=True,
    cacheable=True,
    stale_by=(RESOURCES_LIST_CHANGED.operation,),
    verb="list",
    provider_method="list_resources",
    result_field="resources",
    item="resource",
    item_verb="list",
)
LIST_RESOURCE_TEMPLATES = RequestType(
    "resources/templates/list",
    "list_resource_templates",
    PageParams,
    ListResourceTemplatesResult,
    capability="resources",
    idempotent=True,
    cacheable=True,
    stale_by=(RESOURCES_LIST_CHANGED.operation,),
    verb="list",
    provider_method="list_templates",
    result_field="resource_templates",
    item="template",
    item_verb="list",
    cached_whole=True,
)
READ_RESOURCE = RequestType(
    "resources/read",
    "read_resource",
    ReadResourceParams,
    ReadResourceResult,
    capability="resources",
    idempotent=True,
    asks=True,
    cacheable=True,
    stale_by=(RESOURCE_UPDATED.operation,),
    name_field="uri",
    verb="read",
    target="uri",
    provider_method="read_resource",
    item="resource",
)
SUBSCRIBE = RequestType(
    "resources/subscribe",
    "subscribe",
    SubscribeParams,
    Result,
    capability="resources",
    idempotent=True,
    verb="subscribe",
    target="uri",
)
UNSUBSCRIBE = RequestType(
    "resources/unsubscribe",
    "unsubscribe",
    SubscribeParams,
    Result,
    capability="resources",
    idempotent=True,
    verb="subscribe",
    target="uri",
)
LISTEN = RequestType(
    "subscriptions/listen",
    "listen",
    ListenParams,
    ListenResult,
    endless=True,
    verb="subscribe",
    target="notifications.resource_subscriptions",
)

# Tools and prompts

LIST_TOOLS = RequestType(
    "tools/list",
    "list_tools",
    PageParams,
    ListToolsResult,
    capability="tools",
    idempotent=True,
    cacheable=True,
    stale_by=(TOOLS_LIST_CHANGED.operation,),
    verb="list",
    provider_method="list_tools",
    result_field="tools",
    item="tool",
    item_verb="call",
    cached_whole=True,
)
CALL_TOOL = RequestType(
    "tools/call",
    "call_tool",
    CallToolParams,
    CallToolResult,
    capability="tools",
    asks=True,
    deferred=True,
    name_field="name",
    verb="call",
    target="name",
    provider_method="call_tool",
    item="tool",
)
LIST_PROMPTS = RequestType(
    "prompts/list",
    "list_prompts",
    PageParams,
    ListPromptsResult,
    capability="prompts",
    idempotent=True,
    cacheable=True,
    stale_by=(PROMPTS_LIST_CHANGED.operation,),
    verb="list",
    provider_method="list_prompts",
    result_field="prompts",
    item="prompt",
    item_verb="get",
    cached_whole=True,
)
GET_PROMPT = RequestType(
    "prompts/get",
    "get_prompt",
    GetPromptParams,
    GetPromptResult,
    capability="prompts",
    idempotent=True,
    asks=True,
    name_field="name",
    verb="get",
    target="name",
    provider_method="get_prompt",
    item="prompt",
)

# Completion and logging

COMPLETE = RequestType(
    "completion/complete",
    "complete",
    CompleteParams,
    CompleteResult,
    capability="completions",
    idempotent=True,
    verb="complete",
    target="ref",
    provider_method="complete",
    result_field="completion",
)
SET_LEVEL = RequestType("logging/setLevel", "set_level", SetLevelParams, Result, capability="logging", idempotent=True)

# Tasks of 2025-11-25; the extension has separate rows. Whether tasks are offered also depends on the tool.

GET_TASK = RequestType("tasks/get", "get_task", TaskParams, Task, idempotent=True, target="task_id")
FETCH_TASK_RESULT = RequestType(
    "tasks/result", "fetch_task_result", TaskParams, CallToolResult, idempotent=True, target="task_id"
)
LIST_TASKS = RequestType("tasks/list", "list_tasks", ListTasksParams, ListTasksResult, idempotent=True)
CANCEL_TASK = RequestType("tasks/cancel", "cancel_task", TaskParams, Task, idempotent=True, target="task_id")

# Requests of servers

ELICIT = RequestType("elicitation/create", "elicit", ElicitParams, ElicitResult, capability="elicitation")
SAMPLE = RequestType(
    "sampling/createMessage", "sample", CreateMessageParams, CreateMessageResult, capability="sampling"
)
LIST_ROOTS = RequestType(
    "roots/list", "list_roots", ListRootsParams, ListRootsResult, capability="roots", idempotent=True
)

# Views of the table

#: Requests that providers handle. Those of extensions are in ``carrel.protocol.extensions``.
PROVIDER_REQUESTS: tuple[RequestType, ...] = (
    *(LIST_RESOURCES, LIST_RESOURCE_TEMPLATES, READ_RESOURCE),
    *(LIST_TOOLS, CALL_TOOL, LIST_PROMPTS, GET_PROMPT, COMPLETE),
)
#: Requests that list items, by the kind of the items.
LIST_REQUESTS: dict[ItemKind, RequestType] = {
    row.item: row for row in PROVIDER_REQUESTS if row.item is not None and row.verb == "list"
}
#: Notifications of changed lists, by their operation.
LIST_NOTIFICATIONS: dict[ListName, NotificationType] = {
    "tools_list_changed": TOOLS_LIST_CHANGED,
    "prompts_list_changed": PROMPTS_LIST_CHANGED,
    "resources_list_changed": RESOURCES_LIST_CHANGED,
}
#: Lists, by the kind of their items.
LIST_NAMES: dict[ItemKind, ListName] = {kind: name for name, row in LIST_NOTIFICATIONS.items() for kind in row.items}
#: Capabilities that declare notifications of changed lists.
LIST_KINDS: tuple[ListCapability, ...] = get_args(ListCapability)
#: Capabilities of changed lists, by the operation of the notification.
LIST_CAPABILITIES: dict[ListName, ListCapability] = {
    name: row.capability for name, row in LIST_NOTIFICATIONS.items() if row.capability is not None
}
