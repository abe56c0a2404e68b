"""OAuth authorization code grant with PKCE: credentials of a user who logs in with a browser.

https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from typing import Unpack
from urllib.parse import urlsplit

from carrel.errors import AuthorizationError, ConfigError
from carrel.security.client.authorization_request import prepare_request, read_response
from carrel.security.client.authorization_server import AuthorizationServer, check_pkce
from carrel.security.client.authorization_target import AuthorizationTarget
from carrel.security.client.browser import check_page, open_page
from carrel.security.client.callback import Callback
from carrel.security.client.client_authentication import ClientIdentity, PrivateKey
from carrel.security.client.credentials import OAuthCredentials, OAuthOptions
from carrel.security.client.registration import check_document_url, register
from carrel.security.client.scope_selection import with_offline_access
from carrel.security.client.storage import UserStore
from carrel.security.client.tokens import Token, TokenRejected, request_token
from carrel.transports.addresses import is_loopback

__all__ = ["OAuth"]

#: Default redirect URI when the application handles the redirect itself (``authorize``).
HEADLESS = "http://127.0.0.1/callback"


class OAuth(OAuthCredentials):
    """Credentials of a user: ``Client(url, auth=OAuth())`` opens a browser when the server requires authorization.

    Args:
        client_id, client_secret: client credentials at the authorization server, if the client is pre-registered;
            ``key`` is its private key, if it has a key instead of a secret.
        client_metadata_url: URL of the application's Client ID Metadata Document.
        client_name: client name shown to the user on the consent page.
        redirect_uri: redirect URI; by default a free loopback port.
        open_url: shows a page to the user, instead of the browser.
        authorize: shows a page to the user and returns the URL that the browser was redirected to; no loopback server
            is started then.
        patience: seconds the user has to log in.
        offline: request refresh tokens (``offline_access``) if the authorization server supports them.
        assume_pkce: assume PKCE support of authorization servers that do not advertise it.

    For the other arguments see ``OAuthOptions``. Without ``store``, tokens are kept in the keyring of the operating
    system, or in files that only this user can read.

    Raises:
        ConfigError: an argument is invalid, or a required package is not installed.
    """

    kind = "user"
    interactive = True

    def __init__(
        self,
        *,
        client_id: str | None = None,
        client_secret: str | None = None,
        key: PrivateKey | None = None,
        client_metadata_url: str | None = None,
        client_name: str = "Carrel",
        redirect_uri: str | None = None,
        open_url: Callable[[str], Awaitable[object]] = open_page,
        authorize: Callable[[str], Awaitable[str]] | None = None,
        patience: float = 300.0,
        offline: bool = True,
        assume_pkce: bool = False,
        **options: Unpack[OAuthOptions],
    ) -> None:
        if options.get("store") is None:
            options["store"] = UserStore()
        super().__init__(**options)
        if client_id is None and (client_secret is not None or (key is not None and client_metadata_url is None)):
            raise ConfigError("client_secret and key require client_id")
        if redirect_uri is not None:
            check_redirect(redirect_uri, headless=authorize is not None)
        self.signing_key = key
        self._client_id = client_id
        self._client_secret = client_secret
        self._document = None if client_metadata_url is None else check_document_url(client_metadata_url)
        self._name_shown = client_name
        self._redirect_uri = redirect_uri
        self._open_url = open_url
        self._authorize = authorize
        self._patience = patience
        self._offline = offline
        self._assume_pkce = assume_pkce
        self.registering: AbstractAsyncContextManager[object] = nullcontext()
        """Lock shared by all credentials with the same registration, so that the client is registered only once."""
        self.redirect_uri_of: Callable[[str], str] | None = None
        """Returns a separate redirect URI for an issuer, so that responses of other servers are rejected."""
        self.state_prefix: Callable[[], str] = str
        """Returns the beginning of ``state``, by which the receiver of responses finds this login."""

    def known_as(self) -> str | None:
        """Return the pre-registered client identifier, if any."""
        return self._client_id

    async def identify(self, server: AuthorizationServer) -> ClientIdentity | None:
        """Return the client identity at a server: pre-registered, Client ID Metadata Document, or stored registration.

        https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/client-registration
        """
        if self._client_id is not None:
            if self.issuer not in (None, server.issuer):
                return None
            return ClientIdentity(issuer=server.issuer, id=self._client_id, secret=self._client_secret)
        if self._document is not None and server.client_id_metadata_document_supported:
            return ClientIdentity(issuer=server.issuer, id=self._document)
        found = await self.records.identity(server.issuer)
        return None if found is None or (found.expires is not None and found.expires <= self.clock()) else found

    async def grant(self, target: AuthorizationTarget, scopes: frozenset[str]) -> Token:
        """Get a token by the authorization code grant, with the user's consent.

        Raises:
            AuthorizationError: the user declines, or the authorization server returns an error or cannot be reached.
        """
        check_pkce(target.server, advertised=target.pkce_advertised and not self._assume_pkce)
        if self._offline:
            scopes = with_offline_access(scopes, target.server.scopes_supported)
        identity = await self.identify(target.server)
        if self._authorize is not None:
            return await self._ask(target, scopes, identity, self._redirect_uri_at(target.server, identity), None)
        async with await self._wait_somewhere(identity) as callback:
            return await self._ask(target, scopes, identity, callback.redirect_uri, callback)

    def _redirect_uri_at(self, server: AuthorizationServer, identity: ClientIdentity | None) -> str:
        """Return the redirect URI at a server: its own one if its responses do not say which server they are of.

        https://www.rfc-editor.org/rfc/rfc9700#section-4.4.2
        """
        fixed = identity is not None and not identity.dynamic
        if self.redirect_uri_of is None or fixed or server.authorization_response_iss_parameter_supported:
            return self._redirect_uri or HEADLESS
        return self.redirect_uri_of(server.issuer)

    async def _wait_somewhere(self, identity: ClientIdentity | None) -> Callback:
        """Return the redirect listener, which uses the registered redirect URI if its port is still free."""
        before = None if identity is None else identity.redirect_uri
        if self._redirect_uri is None and before is not None:
            with suppress(AuthorizationError, ConfigError):
                async with Callback(before):
                    return Callback(before)
        return Callback(self._redirect_uri)

    async def _ask(
        self,
        target: AuthorizationTarget,
        scopes: frozenset[str],
        identity: ClientIdentity | None,
        redirect_uri: str,
        callback: Callback | None,
    ) -> Token:
        server = target.server
        if identity is None or not fits(identity, redirect_uri):
            async with self.registering:
                identity = await self.identify(server)  # another login may have registered the client meanwhile
                if identity is None or not fits(identity, redirect_uri):
                    identity = await self._register(server, redirect_uri)
        prefix = self.state_prefix()
        request = prepare_request(server, identity.id, redirect_uri, scopes, target.resource, state_prefix=prefix)
        url = check_page(request.url)
        if callback is None:
            assert self._authorize is not None
            answer = await self._authorize(url)
        else:
            answer = await self._browse(url, callback, request.state)
        form = {
            "grant_type": "authorization_code",
            "code": read_response(request, server, answer),
            "redirect_uri": redirect_uri,
            "code_verifier": request.verifier,
        }
        try:
            token, _ = await request_token(
                self.client_at(server, identity),
                form,
                prover=self.binding.for_target(target),
                requested=scopes,
                resource=target.resource,
                nonce=request.nonce,
            )
        except TokenRejected as error:
            await self.disowned(identity, error)
            raise
        return token

    async def _browse(self, url: str, callback: Callback, state: str) -> str:
        """Open the authorization page, and return the URL that the browser was redirected to."""
        opening = asyncio.ensure_future(self._open_url(url))
        waiting = asyncio.ensure_future(callback.wait(state, self._patience))
        try:
            await asyncio.wait((opening, waiting), return_when=asyncio.FIRST_COMPLETED)
            if opening.done():
                opening.result()
            return await waiting
        finally:
            for task in (opening, waiting):  # some browser commands return only when the browser is closed
                task.cancel()
            await asyncio.gather(opening, waiting, return_exceptions=True)

    async def disowned(self, identity: ClientIdentity, error: TokenRejected) -> None:
        """Delete a dynamic registration after ``invalid_client``, so that the client registers again next time."""
        if error.error == "invalid_client" and identity.dynamic:
            await self.records.forget_identity(identity.issuer)

    async def _register(self, server: AuthorizationServer, redirect_uri: str) -> ClientIdentity:
        if server.registration_endpoint is None:
            raise AuthorizationError(
                f"{server.issuer} does not know this application, and has no way to register it. Register it there by "
                f"hand, with the redirect URI {redirect_uri}, and say OAuth(client_id='…', issuer={server.issuer!r})"
            )
        identity = await register(server, self.fetcher, redirect_uri=redirect_uri, name=self._name_shown)
        await self.records.keep_identity(identity)
        return identity


def fits(identity: ClientIdentity, redirect_uri: str) -> bool:
    """Return whether a client identity may be used with a redirect URI: a registration is for one redirect URI."""
    return not identity.dynamic or identity.redirect_uri == redirect_uri


def check_redirect(uri: str, *, headless: bool) -> None:
    """Check that a redirect URI is on this machine, or https if ``headless``.

    https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/security-considerations#communication-security

    Raises:
        ConfigError: the redirect URI is neither, or it has a fragment.
    """
    parts = urlsplit(uri)
    local = parts.scheme == "http" and is_loopback(parts.hostname or "")
    if (not local and not (headless and parts.scheme == "https" and parts.hostname)) or parts.fragment:
        raise ConfigError(
            f"redirect_uri: {uri!r} must be on this machine, as http://127.0.0.1/callback is, or https with authorize=…"
        )
