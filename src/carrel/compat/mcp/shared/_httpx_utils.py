"""HTTP clients of programs."""

from __future__ import annotations

from typing import Any

__all__ = ["create_mcp_http_client"]


def create_mcp_http_client(headers: dict[str, str] | None = None, timeout: Any = None, auth: Any = None) -> Any:
    """Return an ``httpx.AsyncClient`` that follows redirects and has the usual timeouts."""
    import httpx  # type: ignore[import-not-found,unused-ignore]

    options: dict[str, Any] = {"timeout": httpx.Timeout(30.0, read=300.0) if timeout is None else timeout}
    if headers is not None:
        options["headers"] = headers
    if auth is not None:
        options["auth"] = auth
    return httpx.AsyncClient(follow_redirects=True, **options)
