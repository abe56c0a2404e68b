"""Every error Carrel raises, in one tree.

    MCPError
    ├── ProtocolError               a message or a use of the protocol that the specification does not allow
    │   ├── InvalidMessage          not JSON, not JSON-RPC                          (-32700, -32600)
    │   ├── MethodNotFound          nothing by that name in the peer's revision     (-32601)
    │   ├── InvalidParams           a parameter is missing or wrong; it is named    (-32602)
    │   │   └── InvalidCursor       a pagination cursor that was never given out
    │   ├── HeaderMismatch          HTTP headers and body disagree                  (-32020)
    │   ├── MissingCapability       the client did not declare what is needed       (-32021)
    │   ├── UnsupportedVersion      a protocol revision that is not spoken here     (-32022)
    │   ├── ServerUnavailable       the server has no room for the request now      (-32603)
    │   └── URLElicitationRequired  the user has to visit a page first (2025-11-25) (-32042)
    ├── PeerError                   the error the other side answered
    ├── ResourceError               a resource cannot be had; carries its URI
    │   ├── ResourceNotFound        (-32002 before 2026-07-28, -32602 in it)
    │   ├── ResourceForbidden       answered as not found: what may not be read does not exist
    │   ├── ResourceMismatch        not what was listed: size, digest, frontmatter
    │   └── ResourceTooLarge        says the limit and the window to use instead
    ├── ToolError                   what a tool tells the model that went wrong
    ├── TransportError              the connection is closed, or was never there
    │   ├── RequestTimeout          no answer came in time
    │   ├── HTTPStatusError         the server, or something before it, refused with a status and no message
    │   └── SessionExpired          the server has forgotten the session
    ├── TaskCancelled               a task was cancelled before it had a result
    ├── AuthorizationError          the server wants to know who asks, and that could not be arranged
    └── ConfigError                 wrong set-up or wrong use: exit code 2, one line, no traceback

``protocol.server`` is the one place that turns an exception into an error on the wire; whatever is not in this tree
becomes a plain -32603 that tells the peer nothing about our insides. What a tool raises is an answer to the model
instead, and a ToolError is the one whose message always gets there (docs/server.md).
"""

from __future__ import annotations

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
    "MCPError",
    "MethodNotFound",
    "MissingCapability",
    "PeerError",
    "ProtocolError",
    "RequestTimeout",
    "ResourceError",
    "ResourceForbidden",
    "ResourceMismatch",
    "ResourceNotFound",
    "ResourceTooLarge",
    "ServerUnavailable",
    "SessionExpired",
    "TaskCancelled",
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

#: Characters of one line of an error.
MAX_LINE = 2000


class MCPError(Exception):
    """The root of the tree. Catch it to catch everything Carrel raises on purpose.

    As text they are printable, and bounded: they may repeat what a peer has said.
    """

    def __str__(self) -> str:
        text = super().__str__()
        return text if text.isprintable() and len(text) <= MAX_LINE else printable_lines(text, MAX_LINE)


class ProtocolError(MCPError):
    """A message, or a use of the protocol, that the specification does not allow.

    ``code`` is the JSON-RPC error code it is answered with, ``data`` the error's data (any JSON value or None),
    ``status`` the HTTP status of the refusal where the transport is HTTP and the revision gives one.
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
    """A parameter is missing or wrong (-32602). ``parameter`` names it, when one is to blame."""

    code = INVALID_PARAMS

    def __init__(self, message: str, data: Any = None, *, parameter: str | None = None) -> None:
        super().__init__(message, data)
        self.parameter = parameter


class InvalidCursor(InvalidParams):
    """A pagination cursor that this server did not give out, or that no longer means anything (-32602)."""

    def __init__(self, message: str = "Invalid params: cursor is not one that this server gave out") -> None:
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
    """The request names a protocol revision that this server does not speak (-32022)."""

    code = UNSUPPORTED_VERSION
    status = 400

    def __init__(self, requested: str, supported: list[str], message: str = "Unsupported protocol version") -> None:
        super().__init__(message, {"supported": supported, "requested": requested[:100]})


class ServerUnavailable(ProtocolError):
    """The server has no room for the request now: a client's limit is reached, or it is stopping (-32603).

    The request has had no effect, and may be sent again later.
    """

    code = INTERNAL_ERROR


class URLElicitationRequired(ProtocolError):
    """The user has to visit a page, and the request is to be made again after that (-32042, in 2025-11-25 only).

    ``elicitation`` is the question as the revision has it; ``id`` is its elicitationId.
    https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#url-elicitation-required-error
    """

    code = URL_ELICITATION_REQUIRED

    def __init__(self, elicitation: dict[str, Any]) -> None:
        super().__init__("This request requires a page to be visited first", {"elicitations": [elicitation]})
        self.id: str = elicitation["elicitationId"]


class PeerError(MCPError):
    """The error the other side answered: its ``code``, ``message`` and ``data``, as they came.

    ``status`` is the HTTP status it came with, if it was not 200.
    """

    def __init__(self, code: int, message: str, data: Any = None, *, status: int | None = None) -> None:
        super().__init__(printable(f"{message} ({code})", MAX_LINE))
        self.code = code
        self.message = message
        self.data = data
        self.status = status


class ResourceError(MCPError):
    """A resource cannot be had. ``uri`` says which one."""

    def __init__(self, uri: str, message: str = "Resource not found") -> None:
        super().__init__(printable(f"{message}: {uri}", MAX_LINE))
        self.uri = uri
        self.message = message


class ResourceNotFound(ResourceError):
    """There is no such resource."""


class ResourceForbidden(ResourceError):
    """The resource may not be read. The peer is told that it does not exist."""


class ResourceMismatch(ResourceError):
    """What a server gave is not what it had listed, and must not be used. The message names what differs.

    ``difference`` is "size", "digest", "frontmatter" or "contents" (not one file); "unlisted" for what was not listed
    at all, and "entry" where the list itself is wrong.
    """

    def __init__(self, uri: str, message: str, difference: str) -> None:
        super().__init__(uri, message)
        self.difference = difference


class ResourceTooLarge(ResourceError):
    """The resource is over a limit. The message names the limit and what to ask for instead."""


class ToolError(MCPError):
    """A tool tells the model, in words that are meant for it, what went wrong. They are sent as they are."""


class TransportError(MCPError):
    """The connection is closed, or was never there.

    ``delivered`` is False where it is certain that the request has not reached the other side.
    """

    def __init__(self, message: str = "the connection is closed", *, delivered: bool = True) -> None:
        super().__init__(message)
        self.delivered = delivered


class RequestTimeout(TransportError):
    """An answer did not come in time. The other side was told that nobody waits for it any more."""


class HTTPStatusError(TransportError):
    """An HTTP status other than success, without a message of the protocol.

    ``retry_after`` is in seconds, where the answer said so.
    """

    def __init__(self, status: int, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message, delivered=status not in (401, 403, 404, 405, 429, 503))
        self.status = status
        self.retry_after = retry_after


class SessionExpired(TransportError):
    """The server has forgotten the session; a new one has to be begun."""

    def __init__(self, message: str = "the server has ended the session") -> None:
        super().__init__(message, delivered=False)


class TaskCancelled(MCPError):
    """A task was cancelled, by whomever, before it had a result."""


class AuthorizationError(MCPError):
    """The server wants to know who asks, and that could not be arranged. The message says what failed."""


class ConfigError(MCPError):
    """Wrong set-up or wrong use of the library. Command lines answer it with one line and exit code 2."""
