"""Messages and error codes of JSON-RPC: the face of ``mcp_types.jsonrpc``."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

__all__ = [
    "CONNECTION_CLOSED",
    "HEADER_MISMATCH",
    "INTERNAL_ERROR",
    "INVALID_PARAMS",
    "INVALID_REQUEST",
    "JSONRPC_VERSION",
    "METHOD_NOT_FOUND",
    "MISSING_REQUIRED_CLIENT_CAPABILITY",
    "PARSE_ERROR",
    "REQUEST_TIMEOUT",
    "UNSUPPORTED_PROTOCOL_VERSION",
    "URL_ELICITATION_REQUIRED",
    "ErrorData",
    "JSONRPCError",
    "JSONRPCMessage",
    "JSONRPCNotification",
    "JSONRPCRequest",
    "JSONRPCResponse",
    "RequestId",
    "jsonrpc_message_adapter",
]

JSONRPC_VERSION: Literal["2.0"] = "2.0"

CONNECTION_CLOSED = -32000
REQUEST_TIMEOUT = -32001
HEADER_MISMATCH = -32020
MISSING_REQUIRED_CLIENT_CAPABILITY = -32021
UNSUPPORTED_PROTOCOL_VERSION = -32022
URL_ELICITATION_REQUIRED = -32042
PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

RequestId = Annotated[int, Field(strict=True)] | str


class Deferred(BaseModel):
    """Model whose schema is built when it is first used."""

    model_config = ConfigDict(defer_build=True)


class JSONRPCRequest(Deferred):
    """JSON-RPC request."""

    jsonrpc: Literal["2.0"]
    id: RequestId
    method: str
    params: dict[str, Any] | None = None


class JSONRPCNotification(Deferred):
    """JSON-RPC notification."""

    jsonrpc: Literal["2.0"]
    method: str
    params: dict[str, Any] | None = None


class JSONRPCResponse(Deferred):
    """JSON-RPC response with a result."""

    jsonrpc: Literal["2.0"]
    id: RequestId
    result: dict[str, Any]


class ErrorData(Deferred):
    """Error of a JSON-RPC error response."""

    code: int
    message: str
    data: Any = None


class JSONRPCError(Deferred):
    """JSON-RPC error response. ``id`` is None if the id of the request could not be read."""

    jsonrpc: Literal["2.0"]
    id: RequestId | None
    error: ErrorData


JSONRPCMessage = JSONRPCRequest | JSONRPCNotification | JSONRPCResponse | JSONRPCError
jsonrpc_message_adapter: TypeAdapter[JSONRPCMessage] = TypeAdapter(JSONRPCMessage, config=ConfigDict(defer_build=True))
