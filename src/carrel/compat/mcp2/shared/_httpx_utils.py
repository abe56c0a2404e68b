"""HTTP clients of programs, with the package ``httpx2``."""

from __future__ import annotations

from typing import Any

__all__ = ["create_mcp_http_client"]


def create_mcp_http_client(headers: dict[str, str] | None = None, timeout: Any = None, auth: Any = None) -> Any:
    """Return an ``httpx2.AsyncClient`` that follows redirects and has the usual timeouts."""
    import httpx2  # type: ignore[import-not-found,unused-ignore]

    options: dict[str, Any] = {"timeout": httpx2.Timeout(30.0, read=300.0) if timeout is None else timeout}
    given = {"headers": headers, "auth": auth}
    options |= {name: value for name, value in given.items() if value is not None}
    return httpx2.AsyncClient(follow_redirects=True, **options)
