"""Pages of the OAuth proxy: consent, and errors."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from starlette.responses import HTMLResponse

__all__ = ["create_consent_html", "create_error_html", "secure_page"]

CSP = "default-src 'none'; style-src 'unsafe-inline'; img-src https: data:; base-uri 'none'; frame-ancestors 'none'"
PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">{policy}<title>{title}</title></head>
<body><h1>{title}</h1>{body}</body></html>
"""
HEADERS = {"X-Frame-Options": "DENY", "Cache-Control": "no-store", "Referrer-Policy": "same-origin"}


def secure_page(html: str, status_code: int = 200) -> HTMLResponse:
    """Return a response that no other page may frame."""
    return HTMLResponse(html, status_code=status_code, headers=HEADERS)


def _page(title: str, body: str, policy: str | None = None) -> str:
    chosen = CSP if policy is None else policy
    tag = f'<meta http-equiv="Content-Security-Policy" content="{escape(chosen)}">' if chosen else ""
    return PAGE.format(title=escape(title), body=body, policy=tag)


def create_consent_html(
    client_id: str,
    redirect_uri: str,
    scopes: list[str],
    txn_id: str,
    csrf_token: str,
    client_name: str | None = None,
    title: str = "Application Access Request",
    server_name: str | None = None,
    csp_policy: str | None = None,
    is_cimd_client: bool = False,
    cimd_domain: str | None = None,
    **_: Any,
) -> str:
    """Return the page that asks the user whether an application may act for them. Its words are shown as text."""
    facts = {
        "Application": client_name or client_id,
        "Client ID": client_id,
        "Verified domain" if is_cimd_client else "Server": (cimd_domain if is_cimd_client else server_name) or "",
        "Redirect URI": redirect_uri,
        "Scopes": " ".join(scopes),
    }
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts.items() if value)
    body = (
        f"<p>The application <b>{escape(client_name or client_id)}</b> wants to access "
        f"{escape(server_name or 'this server')} in your name. Allow it only if you have just started the login there "
        f"and know where you are sent back to.</p><dl>{rows}</dl>"
        f'<form method="POST"><input type="hidden" name="txn_id" value="{escape(txn_id)}">'
        f'<input type="hidden" name="csrf_token" value="{escape(csrf_token)}">'
        '<button type="submit" name="action" value="approve">Allow Access</button>'
        '<button type="submit" name="action" value="deny">Deny</button></form>'
    )
    return _page(title, body, csp_policy)


def create_error_html(
    error_title: str, error_message: str, error_details: Mapping[str, str] | None = None, **_: Any
) -> str:
    """Return a page about an error."""
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in (error_details or {}).items())
    return _page(error_title, f"<p>{escape(error_message)}</p>{f'<dl>{rows}</dl>' if rows else ''}")
