"""Exceptions of Carrel, in one hierarchy.

    MCPError
    ├── ProtocolError               a message or a use of the protocol that the specification does not allow
    │   ├── InvalidMessage          not JSON, not JSON-RPC                          (-32700, -32600)
    │   ├── MethodNotFound          no such method in the peer's revision           (-32601)
    │   ├── InvalidParams           a parameter is missing or wrong; it is named    (-32602)
    │   │   └── InvalidCursor       a pagination cursor that was never issued
    │   ├── HeaderMismatch          HTTP headers and body disagree                  (-32020)
    │   ├── MissingCapability       the client did not declare a capability         (-32021)
    │   ├── UnsupportedVersion      an unsupported protocol revision                (-32022)
    │   ├── ServerUnavailable       the server has no room for the request now      (-32603)
    │   │   └── TooManyRequests     a limit on requests is reached; it has the time to wait
    │   ├── ProviderUnavailable     a provider of the server cannot be reached      (-32603)
    │   ├── LoginRequired           the user has to log in at an upstream first     (-32603)
    │   └── URLElicitationRequired  the user has to visit a URL first (2025-11-25)  (-32042)
    ├── PeerError                   an error response of the peer
    ├── ResourceError               a resource is not available (-32603); carries its URI
    │   ├── ResourceNotFound        (-32002 before 2026-07-28, -32602 in it)
    │   ├── ResourceForbidden       reported to the peer as not found
    │   ├── ResourceMismatch        differs from what was listed: size, digest, frontmatter  (-32602)
    │   └── ResourceTooLarge        names the limit and the window to use instead  (-32602)
    ├── ToolError                   error message of a tool for the model
    ├── TransportError              the connection is closed, or was never open
    │   ├── RequestTimeout          no response in time
    │   ├── HTTPStatusError         an HTTP error status without a JSON-RPC message
    │   └── SessionExpired          the server has ended the session
    ├── TaskCancelled               a task was cancelled before it had a result
    ├── AuthorizationError          the server requires authorization, which could not be obtained
    └── ConfigError                 wrong configuration or use: exit code 2, one line, no traceback
        └── SourceUnavailable   a source cannot be reached at start-up, but may be later

``protocol.server`` is the one place that converts an exception to a JSON-RPC error; other exceptions become -32603
without details. Exceptions of a tool become a tool result for the model instead, and only the message of a ToolError
always reaches it (docs/server.md).
"""

from __future__ import annotations

import math
from typing import Any

from carrel.printable import printable, printable_lines

__all__ = [
    "AuthorizationError",
    "ConfigError",
    "HTTPStatusError",
    "HeaderMismatch",
    "InvalidCursor",
    "InvalidMessage",
    "InvalidParams",
    "LoginRequired",
    "MCPError",
    "MethodNotFound",
    "MissingCapability",
    "PeerError",
    "ProtocolError",
    "ProviderUnavailable",
    "RequestTimeout",
    "ResourceError",
    "ResourceForbidden",
    "ResourceMismatch",
    "ResourceNotFound",
    "ResourceTooLarge",
    "ServerUnavailable",
    "SessionExpired",
    "SourceUnavailable",
    "TaskCancelled",
    "TooManyRequests",
    "ToolError",
    "TransportError",
    "URLElicitationRequired",
    "UnsupportedVersion",
]

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
HEADER_MISMATCH = -32020
MISSING_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022
URL_ELICITATION_REQUIRED = -32042

#: HTTP statuses of a server or proxy that is overloaded, restarting or unreachable: the same request may succeed later.
UNAVAILABLE_STATUSES = frozenset((408, 425, 429, 502, 503, 504))

#: Maximum number of characters of one line of an error message.
MAX_LINE = 2000


class MCPError(Exception):
    """Base class of all exceptions that Carrel raises on purpose.

    Converted to a string, they are printable and bounded in length, because they may contain text from a peer.
    """

    def __str__(self) -> str:
        text = super().__str__()
        return text if text.isprintable() and len(text) <= MAX_LINE else printable_lines(text, MAX_LINE)


class ProtocolError(MCPError):
    """A message, or a use of the protocol, that the specification does not allow.

    ``code`` is the JSON-RPC error code of the response, ``data`` the error's data (any JSON value or None),
    ``status`` the HTTP status of the error response, if the revision defines one.
    """

    code: int = INVALID_REQUEST
    status: int = 200

    def __init__(self, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.message = message
        self.data = data


class InvalidMessage(ProtocolError):
    """Not JSON (-32700), or JSON that is not a JSON-RPC message (-32600)."""

    status = 400

    def __init__(self, message: str, code: int = INVALID_REQUEST) -> None:
        super().__init__(message)
        self.code = code


class MethodNotFound(ProtocolError):
    """The peer's revision, or this server, has no such method (-32601)."""

    code = METHOD_NOT_FOUND
    status = 404


class InvalidParams(ProtocolError):
    """A parameter is missing or wrong (-32602). ``parameter`` is its name, if there is only one."""

    code = INVALID_PARAMS

    def __init__(self, message: str, data: Any = None, *, parameter: str | None = None) -> None:
        super().__init__(message, data)
        self.parameter = parameter


class InvalidCursor(InvalidParams):
    """A pagination cursor that this server did not issue, or that is no longer valid (-32602)."""

    def __init__(self, message: str = "Invalid params: the cursor was not issued for this list") -> None:
        super().__init__(message, parameter="cursor")


class HeaderMismatch(ProtocolError):
    """HTTP headers are missing, malformed, or disagree with the body (-32020)."""

    code = HEADER_MISMATCH
    status = 400


class MissingCapability(ProtocolError):
    """The request needs a capability that the client did not declare (-32021)."""

    code = MISSING_CAPABILITY
    status = 400

    def __init__(self, required: dict[str, Any]) -> None:
        names = ", ".join(name for key in required for name in (required[key] if key == "extensions" else (key,)))
        super().__init__(f"Missing required client capability: {names}", {"requiredCapabilities": required})


class UnsupportedVersion(ProtocolError):
    """The request names a protocol revision that this server does not support (-32022)."""

    code = UNSUPPORTED_VERSION
    status = 400

    def __init__(self, requested: str, supported: list[str], message: str = "Unsupported protocol version") -> None:
        super().__init__(message, {"supported": supported, "requested": requested[:100]})


class ServerUnavailable(ProtocolError):
    """The server has no room for the request now: a client's limit is reached, or it is stopping (-32603).

    The request has had no effect, and may be sent again later.
    """

    code = INTERNAL_ERROR


class TooManyRequests(ServerUnavailable):
    """The caller is beyond a limit on its requests (-32603). ``data`` has ``retryAfterMs``.

    ``retry_after`` is the time in seconds after which it may send the request again.
    """

    status = 429

    def __init__(self, message: str, retry_after: float) -> None:
        wait = min(max(retry_after, 0.001), 86_400.0)
        milliseconds = math.ceil(wait * 1000)
        super().__init__(f"{message}; try again in {milliseconds / 1000:.3g} s", {"retryAfterMs": milliseconds})
        self.retry_after = wait


class ProviderUnavailable(ProtocolError):
    """A provider of the server cannot be reached, such as a remote server (-32603). The message names it.

    Lists leave out its entries; other providers are not affected.
    """

    code = INTERNAL_ERROR

    def __init__(self, provider: str) -> None:
        super().__init__(printable(f"{provider} is not available", MAX_LINE))
        self.provider = provider


class LoginRequired(ProtocolError):
    """A server behind this one acts for a user, who has to log in there first (-32603).

    ``url`` is the page for that, if there is one; it is in the message, and in the data of the error.
    """

    def __init__(self, message: str, url: str | None = None) -> None:
        super().__init__(message, None if url is None else {"url": url})
        self.url = url


class URLElicitationRequired(ProtocolError):
    """URL elicitation: the user has to visit a page before the request is retried (-32042, in 2025-11-25 only).

    ``elicitation`` is the elicitation request in the form of the revision; ``id`` is its elicitationId.
    https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#url-elicitation-required-error
    """

    code = URL_ELICITATION_REQUIRED

    def __init__(self, elicitation: dict[str, Any]) -> None:
        super().__init__("This request requires a page to be visited first", {"elicitations": [elicitation]})
        self.id: str = elicitation["elicitationId"]


class PeerError(MCPError):
    """An error response of the peer: its ``code``, ``message`` and ``data``, as received.

    ``status`` is the HTTP status of the response, if it was not 200.
    """

    def __init__(self, code: int, message: str, data: Any = None, *, status: int | None = None) -> None:
        super().__init__(printable(f"{message} ({code})", MAX_LINE))
        self.code = code
        self.message = message
        self.data = data
        self.status = status


class ResourceError(MCPError):
    """A resource is not available, because its source fails (-32603).

    ``uri`` names the resource, and is empty if the error is about a list; ``reason`` is the kind of the error in its
    data on the wire.
    """

    code = INTERNAL_ERROR
    reason = "unavailable"

    def __init__(self, uri: str, message: str = "Resource not found") -> None:
        super().__init__(printable(message if uri in message else f"{message}: {uri}", MAX_LINE))
        self.uri = uri
        self.message = message


class ResourceNotFound(ResourceError):
    """The resource does not exist."""


class ResourceForbidden(ResourceError):
    """The resource may not be read. Reported to the peer as not found."""


class ResourceMismatch(ResourceError):
    """A resource differs from its listing, and must not be used. The message names the difference.

    ``difference`` is "size", "digest", "frontmatter" or "contents" (not one file); "unlisted" if the resource was not
    listed at all, and "entry" if the listing itself is invalid.
    """

    code = INVALID_PARAMS
    reason = "mismatch"

    def __init__(self, uri: str, message: str, difference: str) -> None:
        super().__init__(uri, message)
        self.difference = difference


class ResourceTooLarge(ResourceError):
    """The resource exceeds a limit (-32602). The message names the limit and what to request instead."""

    code = INVALID_PARAMS
    reason = "too large"


class ToolError(MCPError):
    """Failure of a tool. Its message is meant for the model, and sent unchanged."""


class TransportError(MCPError):
    """The connection is closed, or was never open.

    ``delivered`` is False if the request has certainly not reached the peer.
    """

    def __init__(self, message: str = "the connection is closed", *, delivered: bool = True) -> None:
        super().__init__(message)
        self.delivered = delivered


class RequestTimeout(TransportError):
    """No response arrived in time. The request was cancelled."""


class HTTPStatusError(TransportError):
    """An HTTP error status without a JSON-RPC message.

    ``retry_after`` is in seconds, if the response had the header.
    """

    def __init__(self, status: int, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message, delivered=status not in (401, 403, 404, 405, 429, 503))
        self.status = status
        self.retry_after = retry_after


class SessionExpired(TransportError):
    """The server has ended the session; a new one has to be opened."""

    def __init__(self, message: str = "the server has ended the session") -> None:
        super().__init__(message, delivered=False)


class TaskCancelled(MCPError):
    """A task was cancelled, by either side, before it had a result."""


class AuthorizationError(MCPError):
    """The server requires authorization, which could not be obtained. The message says what failed."""


class ConfigError(MCPError):
    """Wrong configuration or use of the library. The command line reports it in one line, with exit code 2."""


class SourceUnavailable(ConfigError):
    """A source cannot be opened at start-up, but may be later. An optional source is retried.

    ``is_down`` is True if nothing answers at the address, so that starting the source helps. Otherwise, the message
    names the error.
    """

    def __init__(self, message: str, *, is_down: bool = True) -> None:
        super().__init__(message)
        self.is_down = is_down
