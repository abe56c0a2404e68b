"""Base class of OAuth 2.1 client credentials: token acquisition, refresh, step-up and storage.

https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from hashlib import sha256
from types import MappingProxyType
from typing import Any, TypedDict
from urllib.parse import urlsplit

import msgspec

from carrel.errors import AuthorizationError
from carrel.security.client.authorization_server import AuthorizationServer, find_server, find_server_of_old
from carrel.security.client.authorization_target import AuthorizationTarget, discover_target
from carrel.security.client.challenges import Challenge, choose_challenge, read_challenges, read_scope
from carrel.security.client.client_authentication import ClientIdentity, PrivateKey, RegisteredClient
from carrel.security.client.protected_resource import origin_of
from carrel.security.client.revocation import NotRevoked, revoke_token
from carrel.security.client.scope_selection import select_scopes
from carrel.security.client.shared_task import SharedTask
from carrel.security.client.storage import MemoryStore, TokenStore
from carrel.security.client.token_binding import TokenBinding
from carrel.security.client.token_records import Pointer, TokenRecords
from carrel.security.client.tokens import Token, TokenRejected, request_token
from carrel.security.discovery import check_issuer
from carrel.security.fetch import Fetcher, require_libraries
from carrel.security.server.bearer import Clock
from carrel.security.server.metadata import canonical
from carrel.transports.addresses import is_loopback
from carrel.transports.client.transport import AuthorizationRejection

__all__ = ["OAuthCredentials", "OAuthOptions"]

LOOPBACK = ("localhost", "127.0.0.1", "::1")

#: Maximum number of renewals of rejected tokens, within a number of seconds.
MAX_RENEWALS = 2
RECENTLY = 60.0
#: Seconds that revoking a token may take.
REVOCATION_TIME = 10.0
#: Maximum number of requests for the same scopes if the authorization server does not grant them.
MAX_STEPS = 2


class OAuthOptions(TypedDict, total=False):
    """Options of all OAuth credentials.

    Args:
        issuer: the issuer identifier of the authorization server to use, exactly as in its metadata. Client credentials
            are not sent to any other issuer. The default is the first issuer that the MCP server names on first use.
        scopes: scopes to request in addition to the server's scopes.
        hosts: hosts that may be outside the public Internet although metadata names them.
        dpop: whether tokens are bound to a key (DPoP). By default, if the server requires it.
        store: the token store.
        account: name that distinguishes several users of one server with a shared store.
        timeout: seconds for one request to an authorization server.
        clock: returns seconds since the epoch.
    """

    issuer: str | None
    scopes: Iterable[str]
    hosts: Iterable[str]
    dpop: bool | None
    store: TokenStore | None
    account: str
    timeout: float
    clock: Clock


class OAuthCredentials:
    """Base class for OAuth credentials: obtains, renews and stores the access token for one MCP server.

    Subclasses implement ``grant``. One object is for one server: the origin of the first request.
    """

    kind = ""
    #: Whether getting a token requires interaction with the user.
    interactive = False
    #: Extensions that clients with these credentials declare to servers.
    extensions: Mapping[str, Mapping[str, Any]] = MappingProxyType({})

    def __init__(
        self,
        *,
        issuer: str | None = None,
        scopes: Iterable[str] = (),
        hosts: Iterable[str] = (),
        dpop: bool | None = None,
        store: TokenStore | None = None,
        account: str = "",
        timeout: float = 10.0,
        clock: Clock = time.time,
    ) -> None:
        require_libraries()
        self.issuer = None if issuer is None else check_issuer(issuer)
        self.wanted = frozenset(scopes.split() if isinstance(scopes, str) else scopes)
        self.clock = clock
        self.account = account
        self.records = TokenRecords(MemoryStore() if store is None else store, self.kind, account)
        self.hosts = {host.lower().strip("[]") for host in hosts}
        self.fetcher = Fetcher(timeout, self.hosts)
        self.binding = TokenBinding(dpop)
        self._url: str | None = None
        self._token: Token | None = None
        self._target: AuthorizationTarget | None = None
        self._loaded = False
        self._work = SharedTask()
        self._renewals: deque[float] = deque(maxlen=MAX_RENEWALS)
        self._steps: dict[frozenset[str], int] = {}

    # Methods for subclasses

    async def grant(self, target: AuthorizationTarget, scopes: frozenset[str]) -> Token:
        """Get a token from the authorization server.

        Raises:
            AuthorizationError: no token is issued.
        """
        raise AuthorizationError("There is no way to get a token")

    async def disowned(self, identity: ClientIdentity, error: TokenRejected) -> None:
        """Handle an error response to a token request; a subclass may discard its client registration."""

    async def identify(self, server: AuthorizationServer) -> ClientIdentity | None:
        """Return the client identity at a server; None if the client is not registered there."""
        return None

    def known_as(self) -> str | None:
        """Return the fixed client identifier; None if it depends on the authorization server."""
        return None

    signing_key: PrivateKey | None = None

    def client_at(self, server: AuthorizationServer, identity: ClientIdentity) -> RegisteredClient:
        """Return the client for requests to an authorization server."""
        return RegisteredClient(server, identity, self.fetcher, self.clock, self.signing_key)

    # Interface for transports

    @property
    def principal(self) -> str:
        """Opaque identifier of the token's subject, by which cached responses are kept apart."""
        token = self._token
        who = None if token is None else (token.issuer, token.client_id, token.subject)
        return sha256(msgspec.json.encode((self.kind, self.account, who))).hexdigest()[:32]

    async def headers(self, url: str, method: str = "POST") -> Mapping[str, str]:
        """Return the authorization headers for a request to ``url``, or no headers without a token or for another
        server.

        Raises:
            AuthorizationError: the expired token cannot be renewed, or ``url`` is neither https nor on this machine.
        """
        if not self._bind(url):
            return {}
        if not self._loaded:
            await self._work.run(self._load)
        token = self._token
        if token is not None and token.expired(self.clock()):
            await self._work.run(self._renew_expired)
            token = self._token
        if token is None:
            return {}
        headers = {"authorization": authorization_of(token)}
        prover = self.binding.for_token(token)
        if prover is not None:
            headers["dpop"] = prover.prove(method, url, self.clock(), token.access_token)
        return headers

    async def rejected(self, rejection: AuthorizationRejection) -> bool:
        """Handle a 401 or 403 response: get a new token, and return whether the request should be retried.

        Raises:
            AuthorizationError: no token is issued.
        """
        if rejection.status not in (401, 403) or not self._bind(rejection.url):
            return False
        challenge = choose_challenge(read_challenges(rejection.challenges))
        lacks_scope = challenge is not None and challenge.parameters.get("error") == "insufficient_scope"
        if rejection.status == 403 and not lacks_scope:
            return False
        token, sent = self._token, rejection.sent
        if self.binding.takes_nonce(token, rejection, challenge):
            return True
        if await self._work.join():  # the running renewal most likely yields the token that this request needs
            return True
        if token is not None and sent is not None and sent.get("authorization") != authorization_of(token):
            return True  # the token has been replaced since the request was sent
        if lacks_scope and token is not None and challenge is not None:
            await self._work.run(lambda: self._step_up(rejection, challenge))
        else:
            await self._work.run(lambda: self._renew_rejected(rejection, challenge))
        return True

    async def can_log_in(self, rejection: AuthorizationRejection) -> bool:
        """Return whether an authorization server is found: the MCP server names it, or has its metadata."""
        challenge = choose_challenge(read_challenges(rejection.challenges))
        try:
            target = await self._discover(rejection, challenge)
        except AuthorizationError:
            return challenge is not None and "resource_metadata" in challenge.parameters
        return not target.server.undescribed

    @property
    def work(self) -> asyncio.Task[None] | None:
        """The login or renewal in progress. It ends after all user interaction of ``grant``."""
        return self._work.running

    async def close(self) -> None:
        """Close connections and cancel a running renewal. Tokens stay in the store."""
        await self._work.cancel()
        await self.fetcher.close()

    # Binding to one server

    def _bind(self, url: str) -> bool:
        """Return whether ``url`` has the origin that tokens are bound to; the first URL sets it."""
        try:
            parts = urlsplit(url)
            host = (parts.hostname or "").lower()
            origin = origin_of(url)
        except ValueError:
            return False
        if self._url is None:
            if parts.scheme.lower() != "https" and not is_loopback(host):
                raise AuthorizationError(
                    f"{url} is not https: no token is sent there, because it would not be encrypted"
                )
            self._url = canonical(url.partition("#")[0].partition("?")[0])
            self.hosts.add(host)
            if is_loopback(host):
                self.hosts.update(LOOPBACK)
            if self.issuer is not None:
                self.hosts.add((urlsplit(self.issuer).hostname or "").lower())
        return origin == origin_of(self._url)

    # Token storage

    async def _load(self) -> None:
        pointer = await self.records.pointer(self._url)
        if pointer is not None and self._fits(pointer):
            self._token = await self.records.token(pointer)
            self.issuer = self.issuer or (pointer.issuer if self.known_as() is not None else None)
        self._loaded = True

    async def found_elsewhere(self) -> bool:
        """Return whether there was no token, and another process has stored one. This ends a login in progress."""
        if self._token is not None or self._url is None:
            return False
        pointer = await self.records.pointer(self._url)
        if pointer is None or not self._fits(pointer) or await self.records.token(pointer) is None:
            return False
        await self._work.cancel()
        await self._load()
        return self._token is not None

    def _fits(self, pointer: Pointer) -> bool:
        return self.issuer in (None, pointer.issuer) and self.known_as() in (None, pointer.client_id)

    async def _keep(self, token: Token) -> None:
        self._token = token
        await self.records.keep(self._url, token)

    async def _forget(self) -> None:
        token, self._token = self._token, None
        if token is not None:
            await self.records.forget(self._url, token)

    async def forget(self, url: str) -> bool:
        """Delete the token for a server from the store, without revoking it, and return whether it existed.

        Raises:
            AuthorizationError: ``url`` is neither https nor on this machine.
        """
        return await self._take(url) is not None

    async def revoke(self, url: str) -> bool:
        """Delete the token for a server from the store, and revoke it; return whether it existed.

        https://www.rfc-editor.org/rfc/rfc7009

        Raises:
            NotRevoked: the token is deleted, but not revoked: the authorization server does not support revocation,
                returns an error, or does not respond in time.
            AuthorizationError: ``url`` is neither https nor on this machine.
        """
        token = await self._take(url)
        if token is None:
            return False
        try:
            async with asyncio.timeout(REVOCATION_TIME):
                target = await self._target_of(token)
                identity = await self.identify(target.server)
                if identity is None or identity.id != token.client_id:
                    identity = ClientIdentity(issuer=token.issuer, id=token.client_id)
                await revoke_token(self.client_at(target.server, identity), token)
        except TimeoutError:
            raise NotRevoked(f"{token.issuer} gave no answer within {REVOCATION_TIME:g} seconds") from None
        except AuthorizationError as error:
            raise NotRevoked(str(error)) from error
        return True

    async def _take(self, url: str) -> Token | None:
        """Delete the token for a server from the store, and return it."""
        if not self._bind(url):
            return None
        if not self._loaded:
            await self._work.run(self._load)
        token = self._token
        await self._forget()
        return token

    # Token acquisition

    async def _renew_expired(self) -> None:
        """Renew an expired token without user interaction; discard it if a renewal requires the user."""
        token = self._token
        if token is None or not token.expired(self.clock()):
            return
        newer = await self.records.newer(token, self.clock())
        if newer is not None:
            self._token = newer
            return
        target = await self._target_of(token)
        try:
            await self._refresh(token, target)
        except TokenRejected:
            if self.interactive:
                await self._forget()  # the next 401 response starts a new grant
            else:
                await self._grant(target, token.requested)

    async def _target_of(self, token: Token) -> AuthorizationTarget:
        """Return the authorization target that a token came from."""
        if self._target is None or self._target.server.issuer != token.issuer:
            if token.resource is None:
                server = await find_server_of_old(self._url or "", self.fetcher)
            else:
                server = await find_server(token.issuer, self.fetcher)
            self._target = AuthorizationTarget(server, token.resource, None, token.key is not None, True)
        return self._target

    async def _refresh(self, token: Token, target: AuthorizationTarget) -> None:
        """Renew a token with its refresh token.

        https://www.rfc-editor.org/rfc/rfc6749#section-6

        Raises:
            TokenRejected: there is no refresh token, or it is not valid, or no longer valid.
        """
        identity = await self.identify(target.server)
        ours = identity is not None and (identity.issuer, identity.id) == (token.issuer, token.client_id)
        if identity is None or not ours or token.refresh_token is None:
            raise TokenRejected("There is no refresh token", None)
        form = {"grant_type": "refresh_token", "refresh_token": token.refresh_token}
        try:
            issued, _ = await request_token(
                self.client_at(target.server, identity),
                form,
                prover=self.binding.for_token(token),
                requested=token.scopes,
                resource=token.resource,
            )
        except TokenRejected as error:
            await self.disowned(identity, error)
            raise
        kept = msgspec.structs.replace(
            issued,
            refresh_token=issued.refresh_token or token.refresh_token,
            requested=token.requested,
            subject=issued.subject or token.subject,
        )
        await self._keep(kept)

    async def _discover(self, rejection: AuthorizationRejection, challenge: Challenge | None) -> AuthorizationTarget:
        """Discover the authorization target of the server again, as it may have changed."""
        before = None if self._token is None else self._token.issuer
        self._target = await discover_target(
            rejection, challenge, self.fetcher, registered_with=self.issuer, before=before
        )
        return self._target

    async def _renew_rejected(self, rejection: AuthorizationRejection, challenge: Challenge | None) -> None:
        """Get the first token, or replace a token that was rejected with 401."""
        token, now = self._token, self.clock()
        target = await self._discover(rejection, challenge)
        if token is not None and token.issuer != target.server.issuer:  # the resource has a new authorization server
            self._renewals.clear()
            await self._forget()
            token = None
        if token is not None:
            newer = await self.records.newer(token, self.clock())
            if newer is not None:
                self._token = newer
                return
            if len(self._renewals) == MAX_RENEWALS and now - self._renewals[0] < RECENTLY:
                await self._forget()
                raise AuthorizationError(
                    f"{rejection.url} does not accept the access tokens that {token.issuer} issues for "
                    f"{token.resource or 'it'}: inform its operator"
                )
            self._renewals.append(now)
            with suppress(TokenRejected):
                await self._refresh(token, target)
                return
        held = frozenset() if token is None else token.requested
        asked = read_scope(None if challenge is None else challenge.parameters.get("scope"))
        scopes = select_scopes(asked, target.scopes_supported, wanted=self.wanted, held=held)
        await self._grant(target, scopes)

    async def _step_up(self, rejection: AuthorizationRejection, challenge: Challenge) -> None:
        """Get a token with more scopes than the current token (step-up authorization).

        https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#step-up-authorization-flow
        """
        token, url = self._token, rejection.url
        asked = read_scope(challenge.parameters.get("scope"))
        held = frozenset() if token is None else token.requested | token.scopes
        words = " ".join(sorted(asked)) or "more than the token has"
        if asked and token is not None and asked <= token.scopes:
            raise AuthorizationError(f"{url} asks for {words}, which the access token already has")
        scopes = held | asked | self.wanted
        taken = self._steps.get(scopes, 0)
        if taken >= MAX_STEPS or not asked:
            raise AuthorizationError(f"{url} asks for {words}, which its authorization server does not grant")
        self._steps[scopes] = taken + 1
        await self._grant(await self._discover(rejection, challenge), scopes)
        if self._token is not None and asked <= self._token.scopes:
            del self._steps[scopes]

    async def _grant(self, target: AuthorizationTarget, scopes: frozenset[str]) -> None:
        if self.known_as() is not None and self.issuer is None:
            self.issuer = target.server.issuer  # pin the issuer: client credentials are not sent to any other issuer
        token = await self.grant(target, scopes)
        self.binding.check(token)
        if self.interactive and not token.subject:  # responses to different users must not share a cache
            token = msgspec.structs.replace(token, subject=secrets.token_urlsafe(12))
        await self._keep(token)


def authorization_of(token: Token) -> str:
    return f"{token.token_type} {token.access_token}"
