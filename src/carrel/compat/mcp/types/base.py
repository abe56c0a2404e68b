"""Base types of requests, notifications, results and JSON-RPC messages."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, TypeAlias, TypeVar

from pydantic import AnyUrl, BaseModel, ConfigDict, Field, RootModel
from pydantic.alias_generators import to_camel
from pydantic.networks import UrlConstraints

from carrel.compat.earlier_model import EarlierModel

__all__ = [
    "CONNECTION_CLOSED",
    "DEFAULT_NEGOTIATED_VERSION",
    "INTERNAL_ERROR",
    "INVALID_PARAMS",
    "INVALID_REQUEST",
    "LATEST_PROTOCOL_VERSION",
    "METHOD_NOT_FOUND",
    "PARSE_ERROR",
    "URL_ELICITATION_REQUIRED",
    "Annotations",
    "AnyFunction",
    "AnyUrl",
    "BaseMetadata",
    "Cursor",
    "EmptyResult",
    "ErrorData",
    "Icon",
    "Implementation",
    "JSONRPCError",
    "JSONRPCMessage",
    "JSONRPCNotification",
    "JSONRPCRequest",
    "JSONRPCResponse",
    "MethodT",
    "Notification",
    "NotificationParams",
    "NotificationParamsT",
    "PaginatedRequest",
    "PaginatedRequestParams",
    "PaginatedResult",
    "ProgressToken",
    "Request",
    "RequestId",
    "RequestParams",
    "RequestParamsT",
    "Result",
    "Role",
    "TaskMetadata",
]

LATEST_PROTOCOL_VERSION = "2025-11-25"
DEFAULT_NEGOTIATED_VERSION = "2025-03-26"

URL_ELICITATION_REQUIRED = -32042
CONNECTION_CLOSED = -32000
PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

ProgressToken = str | int
Cursor = str
Role = Literal["user", "assistant"]
RequestId = Annotated[int, Field(strict=True)] | str
AnyFunction: TypeAlias = Callable[..., Any]
Uri: TypeAlias = Annotated[AnyUrl, UrlConstraints(host_required=False)]


class Model(EarlierModel, BaseModel):
    """Object of the protocol. Fields that it does not know are kept."""

    model_config = ConfigDict(extra="allow", defer_build=True)

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            """Return the value of a field by its name in snake_case, which programs of FastMCP 4 use."""
            field = to_camel(name)
            if (
                name[:1] != "_"
                and field != name
                and (field in type(self).model_fields or field in (self.__pydantic_extra__ or ()))
            ):
                return getattr(self, field)
            return super().__getattr__(name)

    def __eq__(self, other: object) -> bool:
        if (
            isinstance(other, BaseModel)
            and type(other).__name__ == type(self).__name__
            and not isinstance(other, Model)
        ):
            return _members(self) == _members(other)  # a model of ``mcp`` 2
        return super().__eq__(other)

    __hash__ = None  # type: ignore[assignment]


def _members(model: BaseModel) -> dict[str, Any]:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


class TaskMetadata(Model):
    """Request that a call becomes a task (2025-11-25); ``ttl`` is in milliseconds."""

    ttl: Annotated[int, Field(strict=True)] | None = None


class RequestParams(Model):
    """Parameters of a request."""

    class Meta(Model):
        """``_meta`` of a request, with the progress token. FastMCP 4 has a dict in its place."""

        progressToken: ProgressToken | None = None

        def get(self, name: str, default: Any = None) -> Any:
            """Return a member that the protocol does not define."""
            return (self.model_extra or {}).get(name, default)

        def __getitem__(self, name: str) -> Any:
            return (self.model_extra or {})[name]

        def __contains__(self, name: str) -> bool:
            return name in (self.model_extra or {})

    task: TaskMetadata | None = None
    meta: Meta | None = Field(alias="_meta", default=None)


class PaginatedRequestParams(RequestParams):
    """Parameters of a list request."""

    cursor: Cursor | None = None


class NotificationParams(Model):
    """Parameters of a notification."""

    class Meta(Model):
        """``_meta`` of a notification."""

    meta: Meta | None = Field(alias="_meta", default=None)


RequestParamsT = TypeVar("RequestParamsT", bound=RequestParams | dict[str, Any] | None)
NotificationParamsT = TypeVar("NotificationParamsT", bound=NotificationParams | dict[str, Any] | None)
MethodT = TypeVar("MethodT", bound=str)
T = TypeVar("T")


class Request(Model, Generic[RequestParamsT, MethodT]):
    """Request with a method and parameters."""

    method: MethodT
    params: RequestParamsT


class PaginatedRequest(Request[PaginatedRequestParams | None, MethodT], Generic[MethodT]):
    """Request of a page of a list."""

    params: PaginatedRequestParams | None = None


class Notification(Model, Generic[NotificationParamsT, MethodT]):
    """Notification with a method and parameters."""

    method: MethodT
    params: NotificationParamsT


class Result(Model):
    """Result of a request."""

    meta: dict[str, Any] | None = Field(alias="_meta", default=None)


class PaginatedResult(Result):
    """One page of a list; the last one has no ``nextCursor``."""

    nextCursor: Cursor | None = None


class JSONRPCRequest(Request):  # type: ignore[type-arg]
    """JSON-RPC request."""

    jsonrpc: Literal["2.0"]
    id: RequestId
    method: str
    params: dict[str, Any] | None = None


class JSONRPCNotification(Notification):  # type: ignore[type-arg]
    """JSON-RPC notification."""

    jsonrpc: Literal["2.0"]
    method: str
    params: dict[str, Any] | None = None


class JSONRPCResponse(Model):
    """JSON-RPC response with a result."""

    jsonrpc: Literal["2.0"]
    id: RequestId
    result: dict[str, Any]


class ErrorData(Model):
    """Error of a JSON-RPC error response."""

    code: int
    message: str
    data: Any | None = None


class JSONRPCError(Model):
    """JSON-RPC error response."""

    jsonrpc: Literal["2.0"]
    id: str | int
    error: ErrorData


class UnionModel(RootModel[T], Generic[T]):
    """Model that is one of several models."""

    model_config = ConfigDict(defer_build=True)


class JSONRPCMessage(UnionModel[JSONRPCRequest | JSONRPCNotification | JSONRPCResponse | JSONRPCError]):
    """Any JSON-RPC message."""


class EmptyResult(Result):
    """Result without fields."""


class BaseMetadata(Model):
    """Name for programs, and title for people."""

    name: str
    title: str | None = None


class Icon(Model):
    """Icon for user interfaces."""

    src: str
    mimeType: str | None = None
    sizes: list[str] | None = None


class Implementation(BaseMetadata):
    """Name and version of a client or server."""

    version: str
    websiteUrl: str | None = None
    icons: list[Icon] | None = None


class Annotations(Model):
    """Hints for the use and display of an object."""

    audience: list[Role] | None = None
    priority: Annotated[float, Field(ge=0.0, le=1.0)] | None = None


class ContentList(Model):
    """Base of models whose content is one block or a list of blocks."""

    @property
    def content_as_list(self) -> list[Any]:
        """The content as a list."""
        content: Any = getattr(self, "content", [])
        return content if isinstance(content, list) else [content]
