"""Allowed hosts and origins of HTTP transports."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

__all__ = ["DEFAULT_MAX_REQUEST_BODY_SIZE", "RequestBodyLimitMiddleware", "TransportSecuritySettings", "names_of"]

DEFAULT_MAX_REQUEST_BODY_SIZE = 4 * 1024 * 1024


class TransportSecuritySettings(BaseModel):
    """Allowed Host headers and origins, against DNS rebinding. A port may be ``*``."""

    enable_dns_rebinding_protection: bool = True
    allowed_hosts: list[str] = Field(default_factory=list)
    allowed_origins: list[str] = Field(default_factory=list)


def names_of(settings: TransportSecuritySettings | None) -> tuple[list[str], list[str]]:
    """Return the allowed hosts and origins in Carrel's terms, where a host is allowed with any port."""
    if settings is None or not settings.enable_dns_rebinding_protection:
        return ["*"], ["*"]
    return [host.removesuffix(":*") for host in settings.allowed_hosts], settings.allowed_origins


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
