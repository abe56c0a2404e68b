"""Allowed hosts and origins of HTTP transports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from carrel.compat.loggers import get_logger

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

__all__ = [
    "DEFAULT_MAX_REQUEST_BODY_SIZE",
    "RequestBodyLimitMiddleware",
    "TransportSecurityMiddleware",
    "TransportSecuritySettings",
    "check_body_size",
]

log = get_logger(__name__)

DEFAULT_MAX_REQUEST_BODY_SIZE = 4 * 1024 * 1024


class TransportSecuritySettings(BaseModel):
    """Allowed Host headers and origins, against DNS rebinding. A port may be ``*``."""

    model_config = ConfigDict(defer_build=True)

    enable_dns_rebinding_protection: bool = True
    allowed_hosts: list[str] = Field(default_factory=list)
    allowed_origins: list[str] = Field(default_factory=list)


class TransportSecurityMiddleware:
    """Check of the headers of requests. Without settings, only the content type of POST requests is checked."""

    def __init__(self, settings: TransportSecuritySettings | None = None) -> None:
        self.settings = settings or TransportSecuritySettings(enable_dns_rebinding_protection=False)

    async def validate_request(self, request: Request, is_post: bool = False) -> Response | None:
        """Return the response to a request that is refused; None if it is not."""
        from starlette.responses import Response

        settings, headers = self.settings, request.headers
        if is_post and not headers.get("content-type", "").lower().startswith("application/json"):
            return Response("Invalid Content-Type header", status_code=400)
        if settings.enable_dns_rebinding_protection:
            host, origin = headers.get("host"), headers.get("origin")
            if not host or not _is_allowed(host, settings.allowed_hosts):
                log.warning("refused a request with the Host header %s", host)
                return Response("Invalid Host header", status_code=421)
            if origin and not _is_allowed(origin, settings.allowed_origins):
                log.warning("refused a request of the origin %s", origin)
                return Response("Invalid Origin header", status_code=403)
        return None

    async def refuses(self, scope: Any, receive: Any, send: Any) -> bool:
        """Send the response to a request that is refused, and return whether it is."""
        from starlette.requests import Request

        response = await self.validate_request(Request(scope), is_post=scope["method"] == "POST")
        if response is not None:
            await response(scope, receive, send)
        return response is not None


def _is_allowed(name: str, allowed: list[str]) -> bool:
    host, _, port = name.rpartition(":")
    return name in allowed or (port.isdecimal() and f"{host}:*" in allowed)


def check_body_size(size: int) -> None:
    """Check a limit of request bodies, in bytes.

    Raises:
        ValueError: it is not positive.
    """
    if size <= 0:
        raise ValueError("max_request_body_size must be a positive number of bytes")


class RequestBodyLimitMiddleware:
    """Middleware that refuses request bodies above a size in bytes (413). The application gets the whole body."""

    def __init__(self, app: Any, max_body_size: int) -> None:
        self.app = app
        self.max_body_size = max_body_size

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        body, complete = bytearray(), False
        waiting: list[Any] = []
        declared = next((value for name, value in scope["headers"] if name.lower() == b"content-length"), b"")
        too_large = declared.isdigit() and int(declared[:20]) > self.max_body_size
        while not (complete or too_large or waiting):
            message = await receive()
            if message["type"] != "http.request":
                waiting.append(message)
                continue
            body += message.get("body", b"")
            complete = not message.get("more_body", False)
            too_large = len(body) > self.max_body_size
        if too_large:
            from starlette.responses import Response

            await Response("Request body too large", status_code=413)(scope, receive, send)
            return
        if body or complete:
            waiting.insert(0, {"type": "http.request", "body": bytes(body), "more_body": not complete})

        async def replay() -> Any:
            return waiting.pop(0) if waiting else await receive()

        await self.app(scope, replay, send)
