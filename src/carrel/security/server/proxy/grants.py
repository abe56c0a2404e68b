"""Grants of the OAuth proxy: a user's consent to a client, with the upstream tokens, and the tokens issued for it.

Codes and tokens are encrypted references to a grant. A refresh token is valid for one use: using it a second time ends
the grant and invalidates all of its tokens. The same applies to an authorization code.

https://www.rfc-editor.org/rfc/rfc9700#section-4.14.2
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from carrel.log import Log
from carrel.security.server.bearer import Clock
from carrel.security.server.proxy.clients import OAuthError
from carrel.security.server.proxy.sealing import Sealer
from carrel.security.server.proxy.stores import ProxyStore
from carrel.security.server.proxy.upstream import UpstreamClient, UpstreamRejected, UpstreamTokens, UpstreamUser
from carrel.security.server.scopes import Scopes

__all__ = ["AccessToken", "Code", "ProxyGrant", "ProxyGrants"]

log = Log("carrel.security")

#: Seconds for which an authorization code is valid.
CODE_TTL = 60.0

#: Upstream tokens are renewed if they expire within this number of seconds.
SOON = 60.0

#: Maximum number of grants per user; a new grant ends the oldest.
MAX_LOGINS_PER_SUBJECT = 100

#: Seconds for which the end of a grant is recorded: longer than a concurrent request to renew the grant.
ENDED_TTL = 3600.0

#: Maximum number of locks for grants and users in memory.
MAX_LOCKS = 1024


class ProxyGrant(msgspec.Struct, kw_only=True):
    """Consent of a user to a client, as it is stored (encrypted)."""

    id: str
    subject: str
    claims: dict[str, Any]
    client: str
    scopes: list[str]
    resource: str
    upstream: UpstreamTokens
    renewable: bool
    """Whether the upstream can confirm later that the user still exists. Otherwise, no refresh tokens are issued."""


class Code(msgspec.Struct, kw_only=True):
    """Authorization code."""

    grant: str
    client: str
    redirect_uri: str
    challenge: str
    expires: float


class AccessToken(msgspec.Struct, kw_only=True):
    """Access token."""

    grant: str
    expires: float


class RefreshToken(msgspec.Struct, kw_only=True):
    """Refresh token; ``number`` counts the refresh tokens of the grant from 0."""

    grant: str
    number: int = msgspec.field(name="turn")  # the stored name
    expires: float


class UnusedToken(msgspec.Struct):
    """Record that a code is unused, or the number of the unused refresh token."""

    number: int = 0


class Logins(msgspec.Struct):
    """Record of the grants of one user, oldest first."""

    grants: list[str]


class ProxyContext(NamedTuple):
    """Configuration shared by the endpoints of a proxy and its grants."""

    issuer: str
    resource: str
    scopes: Scopes
    sealer: Sealer
    upstream: UpstreamClient
    clock: Clock


class ProxyGrants:
    """Grants in a store, and their tokens. ``ended`` is called when a grant has ended."""

    def __init__(
        self,
        context: ProxyContext,
        store: ProxyStore,
        ended: Callable[[], None],
        *,
        access_ttl: float,
        refresh_ttl: float,
    ) -> None:
        self._store = store
        self._sealer = context.sealer
        self._upstream = context.upstream
        self._clock = context.clock
        self._ended = ended
        self._access_ttl = access_ttl
        self._refresh_ttl = refresh_ttl
        self._locks: OrderedDict[str, asyncio.Lock] = OrderedDict()

    async def begin(
        self, user: UpstreamUser, tokens: UpstreamTokens, client: str, scopes: frozenset[str], resource: str
    ) -> ProxyGrant:
        """Store a new grant. If the user has too many grants, end the oldest.

        Raises:
            ServerUnavailable: the store is full.
        """
        grant = ProxyGrant(
            id=secrets.token_hex(16),
            subject=user.subject,
            claims=user.claims,
            client=client,
            scopes=sorted(scopes),
            resource=resource,
            upstream=tokens,
            renewable=tokens.refresh is not None or self._upstream.upstream.issuer is None,
        )
        user_key = sha256(user.subject.encode()).hexdigest()
        async with self._lock(user_key):
            await self._save(grant)
            await self._count(user_key, grant.id)
        return grant

    async def _count(self, user_key: str, id: str) -> None:
        """Add a grant to the record of its user. If there are too many grants, end the oldest."""
        name, purpose = f"logins-{user_key}", f"logins {user_key}"
        record = self._sealer.open(purpose, await self._store.get(name) or "", Logins) or Logins([])
        kept = [*record.grants, id]
        if len(kept) > MAX_LOGINS_PER_SUBJECT:
            kept = [one for one in kept if await self._store.get(f"grant-{one}") is not None]
            for oldest in kept[:-MAX_LOGINS_PER_SUBJECT]:
                await self.end(oldest)
        sealed = self._sealer.seal(purpose, Logins(kept[-MAX_LOGINS_PER_SUBJECT:]))
        await self._store.put(name, sealed, self._refresh_ttl)

    async def load(self, id: str) -> ProxyGrant | None:
        """Return a grant, or None if it has ended."""
        text = await self._store.get(f"grant-{id}")
        if text is None or await self._store.get(f"ended-{id}") is not None:
            return None
        return self._sealer.open(f"grant {id}", text, ProxyGrant)

    async def end(self, id: str) -> None:
        """End a grant, and invalidate all of its tokens.

        The end is recorded, so that a concurrent request to renew the grant does not store it again.
        """
        for kind in ("grant", "turn", "code"):
            await self._store.delete(f"{kind}-{id}")
        self._ended()
        try:
            await self._store.put(f"ended-{id}", self._sealer.seal("ended", UnusedToken()), ENDED_TTL)
        except Exception:  # the grant is deleted already: report this to the caller
            log.exception("the end of a login cannot be recorded")
        await self._store.delete(f"grant-{id}")

    async def _save(self, grant: ProxyGrant) -> None:
        ttl = self._refresh_ttl if grant.renewable else self._access_ttl + CODE_TTL
        await self._store.put(f"grant-{grant.id}", self._sealer.seal(f"grant {grant.id}", grant), ttl)
        if await self._store.get(f"ended-{grant.id}") is not None:  # the grant has ended meanwhile
            await self._store.delete(f"grant-{grant.id}")

    # Codes and tokens

    async def code(self, grant: ProxyGrant, redirect_uri: str, challenge: str) -> str:
        """Return a new authorization code."""
        await self._store.put(f"code-{grant.id}", self._sealer.seal("code record", UnusedToken()), CODE_TTL)
        code = Code(
            grant=grant.id,
            client=grant.client,
            redirect_uri=redirect_uri,
            challenge=challenge,
            expires=self._clock() + CODE_TTL,
        )
        return self._sealer.seal("code", code)

    def read_code(self, text: str) -> Code:
        """Decrypt an authorization code.

        Raises:
            OAuthError: the code is not valid, or no longer valid.
        """
        code = self._sealer.open("code", text, Code)
        if code is None or code.expires <= self._clock():
            raise OAuthError("invalid_grant", "The code is not valid (any more)")
        return code

    async def redeem(self, code: Code) -> dict[str, Any]:
        """Exchange an authorization code for tokens. A second use of the code ends the grant.

        Raises:
            OAuthError: the code was used before.
        """
        if await self._store.take(f"code-{code.grant}") is None:
            await self.end(code.grant)
            raise OAuthError("invalid_grant", "The code has been used before")
        grant = await self.load(code.grant)
        if grant is None:
            raise OAuthError("invalid_grant", "The login has ended")
        return await self._issue(grant, 0)

    async def refresh(self, text: str, client: str) -> dict[str, Any]:
        """Exchange a refresh token for new tokens. A second use of the refresh token ends the grant.

        The upstream has to confirm that the user still exists.

        Raises:
            OAuthError: the refresh token is not valid, or no longer valid.
            Unverifiable: the upstream does not return a valid response.
        """
        token = self._sealer.open("refresh", text, RefreshToken)
        grant = None if token is None or token.expires <= self._clock() else await self.load(token.grant)
        if token is None or grant is None or grant.client != client:
            raise OAuthError("invalid_grant", "The refresh token is not valid (any more)")
        unused = self._sealer.open(f"turn {grant.id}", await self._store.take(f"turn-{grant.id}") or "", UnusedToken)
        if unused is None or unused.number != token.number:
            await self.end(grant.id)
            raise OAuthError("invalid_grant", "The refresh token has been used before")
        try:
            await self.renew(grant, check=True)
        except UpstreamRejected as error:
            await self.end(grant.id)
            raise OAuthError("invalid_grant", f"The login has ended: {error}") from None
        except BaseException:
            with suppress(OAuthError):
                await self._put_unused(grant, token.number)
            raise
        return await self._issue(grant, token.number + 1)

    async def _issue(self, grant: ProxyGrant, number: int) -> dict[str, Any]:
        now = self._clock()
        answer: dict[str, Any] = {
            "access_token": self._sealer.seal("access", AccessToken(grant=grant.id, expires=now + self._access_ttl)),
            "token_type": "Bearer",
            "expires_in": int(self._access_ttl),
            "scope": " ".join(grant.scopes),
        }
        if grant.renewable:
            await self._put_unused(grant, number)
            token = RefreshToken(grant=grant.id, number=number, expires=now + self._refresh_ttl)
            answer["refresh_token"] = self._sealer.seal("refresh", token)
        return answer

    async def _put_unused(self, grant: ProxyGrant, number: int) -> None:
        """Store which refresh token of a grant is valid.

        Raises:
            OAuthError: the grant has ended meanwhile.
        """
        await self._store.put(
            f"turn-{grant.id}", self._sealer.seal(f"turn {grant.id}", UnusedToken(number)), self._refresh_ttl
        )
        if await self.load(grant.id) is None:
            await self._store.delete(f"turn-{grant.id}")
            raise OAuthError("invalid_grant", "The login has ended")

    def read_access(self, text: str) -> AccessToken | None:
        """Decrypt an access token, or return None if this proxy did not issue it."""
        return self._sealer.open("access", text, AccessToken)

    def grant_of(self, text: str) -> str | None:
        """Return the grant of an access or refresh token, or None if this proxy did not issue the token."""
        token = self._sealer.open("refresh", text, RefreshToken) or self.read_access(text)
        return None if token is None else token.grant

    # Upstream tokens

    async def renew(self, grant: ProxyGrant, *, check: bool = False) -> UpstreamTokens:
        """Return valid upstream tokens. Renew and store expired tokens, with one renewal per grant at a time.

        With ``check``, the tokens are renewed even if they have not expired.

        Raises:
            UpstreamRejected: the upstream no longer accepts the user.
            Unverifiable: the upstream does not return a valid response.
        """
        async with self._lock(grant.id):
            stored = await self.load(grant.id)
            if stored is None:
                raise UpstreamRejected("the grant has ended")
            tokens = stored.upstream
            fresh = tokens.expires is None or tokens.expires > self._clock() + SOON
            if tokens.refresh is not None and (check or not fresh):
                tokens = await self._refresh_upstream(stored)
            elif check and self._upstream.upstream.issuer is None:
                await self._upstream.user(tokens)
            elif not fresh:
                raise UpstreamRejected("the upstream token has expired, and there is no refresh token")
            stored.upstream = tokens
            await self._save(stored)
            return tokens

    def _lock(self, key: str) -> asyncio.Lock:
        """Return the lock of a grant or of a user."""
        lock = self._locks.setdefault(key, asyncio.Lock())
        self._locks.move_to_end(key)
        while len(self._locks) > MAX_LOCKS and not next(iter(self._locks.values())).locked():
            self._locks.popitem(last=False)
        return lock

    async def _refresh_upstream(self, grant: ProxyGrant) -> UpstreamTokens:
        try:
            return await self._upstream.refresh(grant.upstream)
        except UpstreamRejected:
            stored = await self.load(grant.id)
            if stored is None or stored.upstream.refresh == grant.upstream.refresh:
                raise
            return stored.upstream  # another process has renewed it meanwhile
