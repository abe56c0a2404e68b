"""Consent of users to applications, before they are sent to the upstream.

Without it, a user who is logged in at the upstream would authorize any application that sends them there: the upstream
knows this server only (confused deputy). The browser that consented has to be the one that returns from the upstream.
"""

from __future__ import annotations

import hmac
import secrets
import time
from functools import partial
from typing import Any, Literal
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from carrel.compat.fastmcp.server.auth.oauth_proxy.cookies import SignedCookies
from carrel.compat.fastmcp.server.auth.oauth_proxy.models import OAuthTransaction, ProxyDCRClient
from carrel.compat.fastmcp.server.auth.oauth_proxy.ui import create_consent_html, secure_page
from carrel.compat.fastmcp.server.auth.redirect_validation import (
    add_query_params,
    build_client_redirect,
    validate_redirect_uri,
)
from carrel.compat.fastmcp.utilities.key_value import Collection
from carrel.compat.generation import fastmcp_generation
from carrel.compat.mcp.server.auth.form import read_form

__all__ = ["TRANSACTION_LIFETIME", "Consent"]

#: Seconds that a user has for consent and login.
TRANSACTION_LIFETIME = 15 * 60
YEAR = 365 * 24 * 3600
MAX_REMEMBERED = 100
BINDING, STATE = "MCP_CONSENT_BINDING", "MCP_CONSENT_STATE"
APPROVED, DENIED = "MCP_APPROVED_CLIENTS", "MCP_DENIED_CLIENTS"
ConsentMode = bool | Literal["remember", "external"]


class Consent:
    """Consent page of the proxy, and the binding of the browser."""

    _transaction_store: Collection[OAuthTransaction]
    _require_authorization_consent: ConsentMode
    _consent_csp_policy: str | None
    _allowed_client_redirect_uris: list[str] | None
    _cookies: SignedCookies
    issuer_url: Any

    @property
    def response_issuer(self) -> str | None:
        """The issuer that authorization responses name (RFC 9207), as in FastMCP 4; None in earlier versions."""
        return str(self.issuer_url) if fastmcp_generation() >= 4 else None

    async def get_client(self, client_id: str) -> Any:
        """Return a client, or None."""
        raise NotImplementedError

    def _build_upstream_authorize_url(self, txn_id: str, transaction: dict[str, Any]) -> str:
        """Return the URL of the upstream's login."""
        raise NotImplementedError

    def _validate_client_redirect_uri(self, redirect_uri: str) -> bool:
        return validate_redirect_uri(redirect_uri, self._allowed_client_redirect_uris)

    def _asks_for_consent(self) -> bool:
        return self._require_authorization_consent in (True, "remember")

    # Binding of the browser

    def _bind_browser(self, request: Request, response: Response, txn_id: str, token: str | None) -> None:
        """Add a transaction to the cookie of the browser that consented, or remove it."""
        bindings = dict(self._cookies.read(request, BINDING) or {})
        bindings.pop(txn_id, None)
        if token is not None:
            bindings[txn_id] = token
        self._cookies.write(response, BINDING, bindings, TRANSACTION_LIFETIME)

    def _is_bound(self, request: Request, transaction: OAuthTransaction) -> bool:
        """Return whether the browser of a request is the one that consented."""
        given = (self._cookies.read(request, BINDING) or {}).get(transaction.txn_id)
        expected = transaction.consent_token
        return bool(given and expected) and hmac.compare_digest(str(given).encode(), str(expected).encode())

    # The page

    async def _handle_consent(self, request: Request) -> Response:
        """Show the consent page (GET), or take the decision of the user (POST)."""
        given = await read_form(request) if request.method == "POST" else request.query_params
        txn_id = given.get("txn_id")
        found = await self._transaction_store.get(txn_id) if txn_id else None
        if found is None:
            return _error(400, "Invalid or expired transaction")
        if request.method == "POST":
            return await self._decide(request, found, given.get("action"), given.get("csrf_token") or "")
        # a page of another site must not start a login that the user does not see
        visible = request.headers.get("Sec-Fetch-Site") in ("same-origin", "same-site", "none")
        if self._require_authorization_consent == "remember" and visible:
            key = self._make_client_key(found.client_id, found.client_redirect_uri)
            if key in (self._cookies.read(request, APPROVED) or ()):
                return await self._approve(request, found)
            if key in (self._cookies.read(request, DENIED) or ()):
                return self._deny(found)
        return await self._show(request, found)

    async def _show(self, request: Request, transaction: OAuthTransaction) -> Response:
        transaction.csrf_token = secrets.token_urlsafe(32)
        transaction.csrf_expires_at = time.time() + TRANSACTION_LIFETIME
        await self._transaction_store.put(transaction.txn_id, transaction, TRANSACTION_LIFETIME)
        client = await self.get_client(transaction.client_id)
        documented = isinstance(client, ProxyDCRClient) and client.cimd_document is not None
        html = create_consent_html(
            client_id=transaction.client_id,
            redirect_uri=transaction.client_redirect_uri,
            scopes=transaction.scopes,
            txn_id=transaction.txn_id,
            csrf_token=transaction.csrf_token,
            client_name=getattr(client, "client_name", None),
            csp_policy=self._consent_csp_policy,
            is_cimd_client=documented,
            cimd_domain=urlsplit(transaction.client_id).hostname if documented else None,
        )
        response = secure_page(html)
        shown = [*(self._cookies.read(request, STATE) or ()), transaction.csrf_token]
        self._cookies.write(response, STATE, shown[-10:], TRANSACTION_LIFETIME)
        return response

    async def _decide(self, request: Request, found: OAuthTransaction, action: str | None, csrf: str) -> Response:
        expected, until = found.csrf_token or "", found.csrf_expires_at or 0.0
        if not expected or not hmac.compare_digest(csrf.encode(), expected.encode()) or time.time() > until:
            return _error(400, "Invalid or expired consent token")
        if csrf not in (self._cookies.read(request, STATE) or ()):
            return _error(403, "Authorization session mismatch. Please try authenticating again.")
        if action not in ("approve", "deny"):
            return _error(400, "Invalid action")
        response = await self._approve(request, found) if action == "approve" else self._deny(found)
        if self._require_authorization_consent == "remember":
            name = APPROVED if action == "approve" else DENIED
            key = self._make_client_key(found.client_id, found.client_redirect_uri)
            known = [each for each in self._cookies.read(request, name) or () if each != key]
            self._cookies.write(response, name, [*known, key][-MAX_REMEMBERED:], YEAR)
        self._cookies.write(response, STATE, [], 0)
        return response

    async def _approve(self, request: Request, transaction: OAuthTransaction) -> Response:
        transaction.consent_token = secrets.token_urlsafe(32)
        await self._transaction_store.put(transaction.txn_id, transaction, TRANSACTION_LIFETIME)
        url = self._build_upstream_authorize_url(transaction.txn_id, transaction.model_dump())
        response = RedirectResponse(url, status_code=302)
        self._bind_browser(request, response, transaction.txn_id, transaction.consent_token)
        return response

    def _deny(self, transaction: OAuthTransaction) -> Response:
        return self._return(transaction, error="access_denied")

    def _return(self, transaction: OAuthTransaction, **parameters: str) -> Response:
        """Return to the application."""
        uri = transaction.client_redirect_uri
        if not self._validate_client_redirect_uri(uri):
            return _error(400, "Invalid redirect URI")
        parameters["state"] = transaction.client_state
        issuer = self.response_issuer
        build = add_query_params if issuer is None else partial(build_client_redirect, iss=issuer)
        return RedirectResponse(build(uri, parameters), status_code=302)

    def _make_client_key(self, client_id: str, redirect_uri: Any) -> str:
        """Return the key of a remembered decision: an application and its redirect URI."""
        parts = urlsplit(str(redirect_uri))
        path = parts.path if parts.path == "/" else parts.path.rstrip("/")
        return f"{client_id}:{parts.scheme.lower()}://{parts.netloc.lower()}{path}"


def _error(status: int, message: str) -> Response:
    return secure_page(f"<h1>Error</h1><p>{message}</p>", status)
