"""Form of a request to an endpoint of the authorization server."""

from __future__ import annotations

from urllib.parse import parse_qsl

from starlette.requests import Request

__all__ = ["read_form"]

FORM = "application/x-www-form-urlencoded"


async def read_form(request: Request) -> dict[str, str]:
    """Return the parameters of a form; empty for a body of another type, or one that cannot be read."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM:
        return {}
    try:
        text = (await request.body()).decode()
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=1000, errors="strict"))
    except ValueError:
        return {}
