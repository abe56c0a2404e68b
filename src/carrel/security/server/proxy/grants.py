"""Grants of the OAuth proxy: a user's consent to a client, with the upstream tokens, and the tokens issued for it.

Codes and tokens are encrypted references to a grant. A refresh token is good once: using one a second time ends the
grant and all that was issued for it. The same goes for an authorization code.

https://www.rfc-editor.org/rfc/rfc9700#section-4.14.2
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import msgspec

from carrel.security.server.bearer import Clock
from carrel.security.server.proxy.clients import OAuthError
from carrel.security.server.proxy.sealing import Sealer
from carrel.security.server.proxy.stores import ProxyStore
from carrel.security.server.proxy.upstream import UpstreamClient, UpstreamRefused, UpstreamTokens, UpstreamUser

__all__ = ["Access", "Code", "Grant", "Grants"]

#: Seconds for which an authorization code is good.
CODE_TTL = 60.0

#: Upstream tokens that expire within so many seconds are renewed.
SOON = 60.0

#: How many locks of grants are kept.
MAX_LOCKS = 1024


class Grant(msgspec.Struct, kw_only=True):
    """Consent of a user to a client, as it is stored (encrypted)."""

    id: str
    subject: str
    claims: dict[str, Any]
    client: str
    scopes: list[str]
    resource: str
    upstream: UpstreamTokens
    renewable: bool
    """Whether the upstream can be asked later whether the user is still there: then refresh tokens are issued."""


class Code(msgspec.Struct, kw_only=True):
    """Authorization code."""

    grant: str
    client: str
    redirect_uri: str
    challenge: str
    expires: float


class Access(msgspec.Struct, kw_only=True):
    """Access token."""

    grant: str
    expires: float


class Refresh(msgspec.Struct, kw_only=True):
    """Refresh token; ``turn`` is its number in the grant."""

    grant: str
    turn: int
    expires: float


class Turn(msgspec.Struct):
    """Record that a code or a refresh token has not been used."""


class Grants:
    """Grants in a store, and the tokens for them. ``ended`` is called when a grant has ended."""

    def __init__(
        self,
        store: ProxyStore,
        sealer: Sealer,
        upstream: UpstreamClient,
        clock: Clock,
        ended: Callable[[], None],
        *,
        access_ttl: float,
        refresh_ttl: float,
    ) -> None:
        self._store = store
        self._sealer = sealer
        self._upstream = upstream
        self._clock = clock
        self._ended = ended
        self._access_ttl = access_ttl
        self._refresh_ttl = refresh_ttl
        self._locks: OrderedDict[str, asyncio.Lock] = OrderedDict()

    async def begin(
        self, user: UpstreamUser, tokens: UpstreamTokens, client: str, scopes: frozenset[str], resource: str
    ) -> Grant:
        """Store a new grant."""
        grant = Grant(
            id=secrets.token_hex(16),
            subject=user.subject,
            claims=user.claims,
            client=client,
            scopes=sorted(scopes),
            resource=resource,
            upstream=tokens,
            renewable=tokens.refresh is not None or self._upstream.upstream.issuer is None,
        )
        await self._save(grant)
        return grant

    async def load(self, id: str) -> Grant | None:
        """Return a grant; None if it has ended."""
        text = await self._store.get(f"grant-{id}")
        if text is None or await self._store.get(f"ended-{id}") is not None:
            return None
        return self._sealer.open(f"grant {id}", text, Grant)

    async def end(self, id: str) -> None:
        """End a grant, and with it all tokens that were issued for it.

        The record of that outlives a request that stores the grant once more at the same time.
        """
        await self._store.put(f"ended-{id}", self._sealer.seal("turn", Turn()), self._refresh_ttl)
        await self._store.delete(f"grant-{id}")
        self._ended()

    async def _save(self, grant: Grant) -> None:
        ttl = self._refresh_ttl if grant.renewable else self._access_ttl + CODE_TTL
        await self._store.put(f"grant-{grant.id}", self._sealer.seal(f"grant {grant.id}", grant), ttl)

    # Codes and tokens

    async def code(self, grant: Grant, redirect_uri: str, challenge: str) -> str:
        """Return a new authorization code."""
        await self._store.put(f"code-{grant.id}", self._sealer.seal("turn", Turn()), CODE_TTL)
        code = Code(
            grant=grant.id,
            client=grant.client,
            redirect_uri=redirect_uri,
            challenge=challenge,
            expires=self._clock() + CODE_TTL,
        )
        return self._sealer.seal("code", code)

    def read_code(self, text: str) -> Code:
        """Return an authorization code.

        Raises:
            OAuthError: it is not valid (any more).
        """
        code = self._sealer.open("code", text, Code)
        if code is None or code.expires <= self._clock():
            raise OAuthError("invalid_grant", "The code is not valid (any more)")
        return code

    async def redeem(self, code: Code) -> dict[str, Any]:
        """Return the tokens for an authorization code, once; a second use ends the grant.

        Raises:
            OAuthError: it was used before.
        """
        if await self._store.take(f"code-{code.grant}") is None:
            await self.end(code.grant)
            raise OAuthError("invalid_grant", "The code has been used before")
        grant = await self.load(code.grant)
        if grant is None:
            raise OAuthError("invalid_grant", "The login has ended")
        return await self._issue(grant, 0)

    async def refresh(self, text: str, client: str) -> dict[str, Any]:
        """Return new tokens for a refresh token, once; a second use ends the grant.

        The upstream is asked whether the user is still there.

        Raises:
            OAuthError: it is not valid (any more).
            Unverifiable: the upstream gives no valid response.
        """
        token = self._sealer.open("refresh", text, Refresh)
        grant = None if token is None or token.expires <= self._clock() else await self.load(token.grant)
        if token is None or grant is None or grant.client != client:
            raise OAuthError("invalid_grant", "The refresh token is not valid (any more)")
        turn = f"turn-{grant.id}-{token.turn}"
        if await self._store.take(turn) is None:
            await self.end(grant.id)
            raise OAuthError("invalid_grant", "The refresh token has been used before")
        try:
            await self.renew(grant, check=True)
        except UpstreamRefused as error:
            await self.end(grant.id)
            raise OAuthError("invalid_grant", f"The login has ended: {error}") from None
        except BaseException:
            await self._store.put(turn, self._sealer.seal("turn", Turn()), self._refresh_ttl)
            raise
        return await self._issue(grant, token.turn + 1)

    async def _issue(self, grant: Grant, turn: int) -> dict[str, Any]:
        now = self._clock()
        answer: dict[str, Any] = {
            "access_token": self._sealer.seal("access", Access(grant=grant.id, expires=now + self._access_ttl)),
            "token_type": "Bearer",
            "expires_in": int(self._access_ttl),
            "scope": " ".join(grant.scopes),
        }
        if grant.renewable:
            await self._store.put(f"turn-{grant.id}-{turn}", self._sealer.seal("turn", Turn()), self._refresh_ttl)
            token = Refresh(grant=grant.id, turn=turn, expires=now + self._refresh_ttl)
            answer["refresh_token"] = self._sealer.seal("refresh", token)
        return answer

    def read_access(self, text: str) -> Access | None:
        """Return an access token; None if it was not issued here."""
        return self._sealer.open("access", text, Access)

    def grant_of(self, text: str) -> str | None:
        """Return the grant that an access or refresh token is for; None if it was not issued here."""
        token = self._sealer.open("refresh", text, Refresh) or self.read_access(text)
        return None if token is None else token.grant

    # Upstream tokens

    async def renew(self, grant: Grant, *, check: bool = False) -> UpstreamTokens:
        """Return upstream tokens that have not expired, and store new ones. One request of a grant at a time renews.

        With ``check``, the upstream is asked even if they have not expired.

        Raises:
            UpstreamRefused: the upstream does not accept the user any more.
            Unverifiable: the upstream gives no valid response.
        """
        lock = self._locks.setdefault(grant.id, asyncio.Lock())
        self._locks.move_to_end(grant.id)
        while len(self._locks) > MAX_LOCKS and not next(iter(self._locks.values())).locked():
            self._locks.popitem(last=False)
        async with lock:
            stored = await self.load(grant.id)
            if stored is None:
                raise UpstreamRefused("the grant has ended")
            tokens = stored.upstream
            fresh = tokens.expires is None or tokens.expires > self._clock() + SOON
            if tokens.refresh is not None and (check or not fresh):
                tokens = await self._refresh_upstream(stored)
            elif check and self._upstream.upstream.issuer is None:
                await self._upstream.user(tokens)
            elif not fresh:
                raise UpstreamRefused("the upstream token has expired, and there is no refresh token")
            stored.upstream = tokens
            await self._save(stored)
            return tokens

    async def _refresh_upstream(self, grant: Grant) -> UpstreamTokens:
        try:
            return await self._upstream.refresh(grant.upstream)
        except UpstreamRefused:
            stored = await self.load(grant.id)
            if stored is None or stored.upstream.refresh == grant.upstream.refresh:
                raise
            return stored.upstream  # another process has renewed it meanwhile
