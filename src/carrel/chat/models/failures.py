"""Errors of the vendors' SDKs as errors of Carrel: keys, unknown models, overload, addresses that do not answer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from time import time
from typing import Any, NoReturn, Protocol

from carrel.errors import ConfigError, HTTPStatusError, RequestTimeout, TransportError

__all__ = [
    "UnknownModel",
    "VendorAccess",
    "http_errors",
    "raise_api_error",
    "raise_connection",
    "raise_status",
    "retry_time",
]

#: Statuses after which the same request may succeed later; 529 is Anthropic's for overload.
BUSY = (429, 503, 529)
#: HTTP clients of the SDKs.
CLIENTS = ("aiohttp", "httpcore", "httpcore2", "httpx", "httpx2")
#: Names of errors within a stream, whose status was 200 already, with the status that they would have had.
STATUSES = {
    "api_error": 500,
    "authentication_error": 401,
    "invalid_request_error": 400,
    "not_found_error": 404,
    "overloaded_error": 529,
    "permission_error": 403,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "request_too_large": 413,
    "server_error": 500,
    "server_is_overloaded": 503,
    "timeout_error": 504,
}


class Begun(Protocol):
    """Answer that may have begun to arrive."""

    begun: bool


class VendorAccess:
    """How a vendor is reached, for messages: its title, its address, and where its key came from."""

    def __init__(self, title: str, address: str, key_source: str | None) -> None:
        self.title = title
        self.address = address
        self.key_source = key_source


class UnknownModel(ConfigError):
    """The vendor does not have the model, or not for this key."""


def raise_status(
    access: VendorAccess,
    status: int,
    message: str,
    retry_after: float | None = None,
    cause: BaseException | None = None,
) -> NoReturn:
    """Raise the error for an HTTP status of a vendor.

    Raises:
        ConfigError: the key is rejected or lacks a permission, or there is no such model (``UnknownModel``).
        HTTPStatusError: all other statuses; ``retry_after`` is in seconds.
    """
    message = message.strip().rstrip(".") or "without a message"
    if status == 401:
        source = f"the key of {access.key_source}" if access.key_source else "requests without a key"
        raise ConfigError(f"{access.title} refuses {source}: {message}") from cause
    if status == 403:
        source = access.key_source or "no key"
        raise ConfigError(f"{access.title} does not allow this with {source}: {message}") from cause
    if status == 404:
        raise UnknownModel(f"{access.title} answers: {message}") from cause
    when = f"; try again in {retry_after:.0f} s" if retry_after is not None else "; try again later"
    if status in BUSY:
        state = "limits the rate of requests" if status == 429 else "is overloaded"
        raise HTTPStatusError(
            status, f"{access.title} {state} ({status}): {message}{when}", retry_after=retry_after
        ) from cause
    raise HTTPStatusError(
        status, f"{access.title} answers with an error ({status}): {message}", retry_after=retry_after
    ) from cause


def raise_connection(
    access: VendorAccess, error: BaseException, *, timed_out: bool = False, begun: bool = False
) -> NoReturn:
    """Raise the error for a vendor that cannot be reached, or whose connection broke; ``begun``: it had answered.

    Raises:
        TransportError: always; a ``RequestTimeout`` if it ``timed_out``.
    """
    reason = str(error.__cause__ or error).rstrip(".") or type(error.__cause__ or error).__name__
    if timed_out:
        raise RequestTimeout(f"{access.title} did not answer in time") from error
    if begun:
        raise TransportError(f"The connection to {access.title} broke during the answer: {reason}") from error
    raise TransportError(f"{access.title} cannot be reached at {access.address}: {reason}", delivered=False) from error


@contextmanager
def http_errors(access: VendorAccess, answer: Begun) -> Iterator[None]:
    """Raise the errors of HTTP clients, which SDKs raise while a stream is read, as ``raise_connection`` does."""
    try:
        yield
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in CLIENTS and not isinstance(error, OSError):
            raise
        raise_connection(access, error, timed_out="Timeout" in type(error).__name__, begun=answer.begun)


def raise_api_error(access: VendorAccess, error: Any, *, begun: bool) -> NoReturn:
    """Raise the error for an ``APIError`` of the SDKs of Anthropic and OpenAI, which are made alike.

    Raises:
        ConfigError: see ``raise_status``; also if there is no credit left.
        TransportError: see ``raise_status`` and ``raise_connection``.
    """
    response = getattr(error, "response", None)
    body: dict[str, Any] = error.body if isinstance(error.body, dict) else {}
    nested = body.get("error")
    inner: dict[str, Any] = nested if isinstance(nested, dict) else body
    if response is None and not inner:
        name = type(error).__name__
        raise_connection(access, error, timed_out="Timeout" in name, begun=begun)
    message = str(inner.get("message") or error.message)
    if "insufficient_quota" in (inner.get("code"), inner.get("type")):  # status 429, but waiting does not help
        raise ConfigError(f"{access.title}: {message}") from error
    status = getattr(error, "status_code", 200)
    if status < 400:
        names = (inner.get("type"), inner.get("code"))
        status = next((STATUSES[str(name)] for name in names if str(name) in STATUSES), 500)
    raise_status(access, status, message, retry_time(response.headers if response is not None else {}), error)


def retry_time(headers: Any) -> float | None:
    """Return the delay in seconds from a Retry-After header (seconds or a date), or None."""
    written = headers.get("retry-after-ms")
    if written is not None and re.fullmatch(r"\d+(\.\d+)?", written):
        return float(written) / 1000
    written = headers.get("retry-after")
    if written is None:
        return None
    if re.fullmatch(r"\d+(\.\d+)?", written):
        return float(written)
    try:
        return max(0.0, parsedate_to_datetime(written).timestamp() - time())
    except ValueError:
        return None
