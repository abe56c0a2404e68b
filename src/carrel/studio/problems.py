"""Error responses of the API (RFC 9457), and which status an exception has."""

from __future__ import annotations

from http import HTTPStatus

import msgspec

from carrel.errors import (
    AuthorizationError,
    ConfigError,
    InvalidParams,
    MCPError,
    RequestTimeout,
    ResourceForbidden,
    ResourceNotFound,
    ResourceTooLarge,
    TransportError,
)
from carrel.log import Log
from carrel.printable import printable
from carrel.redaction import without_secrets
from carrel.studio.api import Problem

__all__ = ["NotFound", "Refused", "problem", "problem_body", "problem_of"]

log = Log("carrel.studio")

#: Status of the response for an exception, in the order in which they are tried.
STATUSES: tuple[tuple[type[Exception], int], ...] = (
    (ResourceNotFound, 404),
    (ResourceForbidden, 403),
    (ResourceTooLarge, 413),
    (RequestTimeout, 504),
    (AuthorizationError, 502),
    (TransportError, 502),
    (InvalidParams, 422),
    (ConfigError, 422),
    (MCPError, 502),
    (msgspec.ValidationError, 400),
    (msgspec.DecodeError, 400),
    (ValueError, 400),
)
MAX_DETAIL = 2000


class Refused(Exception):
    """The request cannot be answered: the status and the reason of the response."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


class NotFound(Refused):
    """There is no such server, resource, operation or question."""

    def __init__(self, detail: str) -> None:
        super().__init__(404, detail)


def problem(status: int, detail: str) -> Problem:
    """Return an error response. The detail may be text of a peer: control characters are escaped."""
    shown = "\n".join(printable(line, MAX_DETAIL) for line in without_secrets(detail)[:MAX_DETAIL].split("\n"))
    return Problem(title=HTTPStatus(status).phrase, status=status, detail=shown)


def problem_of(error: BaseException) -> Problem:
    """Return the error response for an exception. An unexpected one is logged, and says nothing about it."""
    if isinstance(error, Refused):
        return problem(error.status, str(error))
    status = next((status for kind, status in STATUSES if isinstance(error, kind)), None)
    if status is None:
        log.error("a request of the page has failed", exc_info=error)
        return problem(500, "The request failed: see the log of carrel studio")
    return problem(status, str(error) or type(error).__name__)


def problem_body(status: int, detail: str) -> bytes:
    """Return an error response as JSON."""
    return msgspec.json.encode(problem(status, detail))
