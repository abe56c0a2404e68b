"""Server on this machine that a browser is redirected to with an authorization code."""

from __future__ import annotations

from dataclasses import dataclass, fields
from html import escape
from typing import Any

import anyio
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

__all__ = ["CallbackResponse", "OAuthCallbackResult", "create_callback_html", "create_oauth_callback_server"]

PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>
<body><h1>{heading}</h1>{details}<p>You can close this tab.</p></body></html>
"""
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}


def create_callback_html(
    message: str, is_success: bool = True, title: str = "FastMCP OAuth", server_url: str | None = None
) -> str:
    """Return the page that the user sees after the redirect."""
    said = (f"Connected to: {server_url}" if server_url else "") if is_success else message
    return PAGE.format(
        title=escape(title),
        heading="Authentication successful" if is_success else "Authentication failed",
        details=f"<p><code>{escape(said)}</code></p>" if said else "",
    )


@dataclass
class CallbackResponse:
    """Parameters of the redirect."""

    code: str | None = None
    state: str | None = None
    error: str | None = None
    error_description: str | None = None

    @classmethod
    def from_dict(cls, data: dict[str, str]) -> CallbackResponse:
        """Return the parameters in a query; others are left out."""
        return cls(**{each.name: data[each.name] for each in fields(cls) if each.name in data})

    def to_dict(self) -> dict[str, str]:
        """Return the parameters that are not None."""
        return {name: value for name, value in self.__dict__.items() if value is not None}

    def problem(self) -> str | None:
        """Return why there is no authorization, or None."""
        if self.error == "access_denied":
            return "Access was denied by the authorization server."
        if self.error:
            return f"Authorization failed: {self.error_description or 'Unknown error'}"
        if not self.code:
            return "No authorization code was received from the server."
        if self.state is None:
            return "The OAuth server did not return the expected state parameter."
        return None


@dataclass
class OAuthCallbackResult:
    """Result of the redirect: code and state, or an error."""

    code: str | None = None
    state: str | None = None
    error: Exception | None = None


def create_oauth_callback_server(
    port: int,
    host: str = "127.0.0.1",
    callback_path: str = "/callback",
    server_url: str | None = None,
    result_container: OAuthCallbackResult | None = None,
    result_ready: anyio.Event | None = None,
) -> uvicorn.Server:
    """Return a server that puts the first redirect into ``result_container`` and sets ``result_ready``."""

    async def handle(request: Request) -> Any:
        given = CallbackResponse.from_dict(dict(request.query_params))
        problem = given.problem()
        if result_container is not None and result_ready is not None and not result_ready.is_set():
            if problem is None:
                result_container.code, result_container.state = given.code, given.state
            else:
                result_container.error = RuntimeError(problem)
            result_ready.set()
        page = create_callback_html(problem or "", is_success=problem is None, server_url=server_url)
        return HTMLResponse(page, status_code=200 if problem is None else 400, headers=HEADERS)

    app = Starlette(routes=[Route(callback_path, handle)])
    return uvicorn.Server(uvicorn.Config(app, host, port, lifespan="off", log_level="warning", ws="none"))
