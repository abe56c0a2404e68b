"""Base types of requests, notifications and results, with snake_case attributes and camelCase on the wire."""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal, NotRequired, Self, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel
from typing_extensions import TypedDict

from carrel.compat.earlier_model import EarlierModel

__all__ = [
    "CLIENT_CAPABILITIES_META_KEY",
    "CLIENT_INFO_META_KEY",
    "CORE_RESULT_TYPES",
    "DEFAULT_NEGOTIATED_VERSION",
    "LOG_LEVEL_META_KEY",
    "PROTOCOL_VERSION_META_KEY",
    "SERVER_INFO_META_KEY",
    "BaseMetadata",
    "CacheableResult",
    "EmptyResult",
    "IconTheme",
    "Notification",
    "NotificationParams",
    "PaginatedRequest",
    "PaginatedRequestParams",
    "PaginatedResult",
    "ProgressToken",
    "Request",
    "RequestParams",
    "RequestParamsMeta",
    "Result",
    "ResultType",
    "Role",
]

if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass
else:
    ModelMetaclass = type(BaseModel)

DEFAULT_NEGOTIATED_VERSION = "2025-03-26"
PROTOCOL_VERSION_META_KEY = "io.modelcontextprotocol/protocolVersion"
CLIENT_INFO_META_KEY = "io.modelcontextprotocol/clientInfo"
CLIENT_CAPABILITIES_META_KEY = "io.modelcontextprotocol/clientCapabilities"
LOG_LEVEL_META_KEY = "io.modelcontextprotocol/logLevel"
SERVER_INFO_META_KEY = "io.modelcontextprotocol/serverInfo"
CORE_RESULT_TYPES: frozenset[str] = frozenset(("complete", "input_required"))

ProgressToken = str | int
Role = Literal["user", "assistant"]
IconTheme = Literal["light", "dark"]
ResultType = Literal["complete", "input_required"] | str
Meta: TypeAlias = dict[str, Any]


class MCPModelType(ModelMetaclass):
    """Type of models. An object of the model of ``mcp`` 1 with the same name is an instance too.

    Results of FastMCP 4 have models of ``mcp`` 1, and programs compare them with the models of ``mcp`` 2.
    """

    def __instancecheck__(self, instance: Any) -> bool:
        if isinstance(instance, EarlierModel) and self.__module__.startswith(__package__):
            return any(kind.__name__ == self.__name__ for kind in type(instance).__mro__)
        return super().__instancecheck__(instance)


class MCPModel(BaseModel, metaclass=MCPModelType):
    """Object of the protocol."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        defer_build=True,
        revalidate_instances="subclass-instances",  # converts models of ``mcp`` 1
    )

    def __eq__(self, other: object) -> bool:
        return other == self if isinstance(other, EarlierModel) else super().__eq__(other)


class OpenModel(MCPModel):
    """Object of the protocol that keeps fields it does not know."""

    model_config = ConfigDict(extra="allow")


class RequestParamsMeta(TypedDict, extra_items=Any):  # type: ignore[call-arg]  # PEP 728
    """``_meta`` of a request, with the progress token and any other keys."""

    progress_token: NotRequired[ProgressToken]


class RequestParams(MCPModel):
    """Parameters of a request."""

    meta: RequestParamsMeta | None = Field(alias="_meta", default=None)


class PaginatedRequestParams(RequestParams):
    """Parameters of a list request."""

    cursor: str | None = None


class NotificationParams(MCPModel):
    """Parameters of a notification."""

    meta: Meta | None = Field(alias="_meta", default=None)


RequestParamsT = TypeVar("RequestParamsT", bound=RequestParams | dict[str, Any] | None)
NotificationParamsT = TypeVar("NotificationParamsT", bound=NotificationParams | dict[str, Any] | None)
MethodT = TypeVar("MethodT", bound=str)


class Request(MCPModel, Generic[RequestParamsT, MethodT]):
    """Request with a method and parameters. ``name_param`` is the parameter that HTTP requests repeat in a header."""

    method: MethodT
    params: RequestParamsT

    name_param: ClassVar[str | None] = None


class PaginatedRequest(Request[PaginatedRequestParams | None, MethodT], Generic[MethodT]):
    """Request of a page of a list."""

    params: PaginatedRequestParams | None = None


class Notification(MCPModel, Generic[NotificationParamsT, MethodT]):
    """Notification with a method and parameters."""

    method: MethodT
    params: NotificationParamsT


class Result(MCPModel):
    """Result of a request."""

    meta: Meta | None = Field(alias="_meta", default=None)


class PaginatedResult(Result):
    """One page of a list; the last one has no cursor."""

    next_cursor: str | None = None


class CacheableResult(Result):
    """Result with freshness hints (2026-07-28): milliseconds, and whether caches may share it."""

    ttl_ms: Annotated[int, Field(ge=0)] = 0
    cache_scope: Literal["public", "private"] = "private"


class EmptyResult(Result):
    """Result without fields."""

    result_type: ResultType | None = None


class BaseMetadata(MCPModel):
    """Name for programs, and title for people."""

    name: str
    title: str | None = None


class ContentList(MCPModel):
    """Base of models whose content is one block or a list of blocks."""

    @property
    def content_as_list(self) -> list[Any]:
        """The content as a list."""
        content: Any = getattr(self, "content", [])
        return content if isinstance(content, list) else [content]


class InputRequired(Result):
    """Base of the result that has questions to the client, or state, or both."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        fields = self.__dict__
        if not fields.get("input_requests") and fields.get("request_state") is None:
            raise ValueError("InputRequiredResult requires at least one of input_requests or request_state")
        return self
