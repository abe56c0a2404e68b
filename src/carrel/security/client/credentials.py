"""Credentials whose tokens an authorization server issues, when the server that is protected asks for one.

https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from types import MappingProxyType
from typing import Any, TypedDict
from urllib.parse import urlsplit

import msgspec

from carrel.errors import AuthorizationError
from carrel.security.client.authorization_server import AuthorizationServer, find_server, find_server_of_old
from carrel.security.client.authorization_target import AuthorizationTarget, find_place
from carrel.security.client.challenges import Challenge, choose_challenge, read_challenges, read_scope
from carrel.security.client.client_authentication import ClientIdentity, PrivateKey
from carrel.security.client.dpop import ALGORITHM, Prover, nonce_of
from carrel.security.client.protected_resource import origin_of
from carrel.security.client.scope_selection import select_scopes
from carrel.security.client.storage import MemoryStore, TokenStore
from carrel.security.client.tokens import Token, TokenRefused, request_token
from carrel.security.discovery import check_issuer
from carrel.security.fetch import Fetcher, require_libraries
from carrel.security.server.bearer import Clock
from carrel.security.server.metadata import canonical
from carrel.transports.addresses import is_loopback

__all__ = ["OAuthCredentials", "Options"]

LOOPBACK = ("localhost", "127.0.0.1", "::1")

#: How many tokens in a row may be refused that were issued within the last so many seconds.
MAX_RENEWALS = 2
RECENTLY = 60.0
#: How often the same scopes are asked for, if the authorization server does not grant them.
MAX_STEPS = 2


class Pointer(msgspec.Struct):
    """Whose token a server takes: where to look for it the next time."""

    issuer: str
    resource: str | None
    client_id: str


class Options(TypedDict, total=False):
    """What all kinds of issued tokens take.

    Args:
        issuer: the authorization server that is to be used, exactly as it calls itself. What this client is known by
            is sent to no other. Without it, it is the one that the server names first, the first time.
        scopes: scopes to ask for, whatever else the server asks for.
        hosts: hosts that need not be on the public Internet, though it is the server that names them.
        dpop: whether tokens are bound to a key (DPoP). Without it, where the server asks for that.
        store: where tokens are kept.
        account: tells several users of one server apart, who share a store.
        timeout: seconds for one question to an authorization server.
        clock: gives seconds since the epoch.
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
    """What all kinds have in common: whom to ask, when to ask again, and to whom a token goes, which is one server.

    What kind it is says ``grant``. One object is for one server: the one it is first asked about.
    """

    kind = ""
    #: Whether a user has to be there to get a token.
    interactive = False
    #: What clients with such credentials declare to servers.
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
        self.store: TokenStore = MemoryStore() if store is None else store
        self.hosts = {host.lower().strip("[]") for host in hosts}
        self.fetcher = Fetcher(timeout, self.hosts)
        self._dpop = dpop
        self._url: str | None = None
        self._token: Token | None = None
        self._place: AuthorizationTarget | None = None
        self._prover: Prover | None = None
        self._loaded = False
        self._work: asyncio.Task[None] | None = None
        self._renewals: deque[float] = deque(maxlen=MAX_RENEWALS)
        self._steps: dict[frozenset[str], int] = {}

    # What a kind of its own has to say

    async def grant(self, place: AuthorizationTarget, scopes: frozenset[str]) -> Token:
        """Get a token.

        Raises:
            AuthorizationError: there is none to be had.
        """
        raise AuthorizationError("There is no way to get a token")

    async def disowned(self, identity: ClientIdentity, error: TokenRefused) -> None:
        """Take note of why an authorization server refused this client."""

    async def identify(self, server: AuthorizationServer) -> ClientIdentity | None:
        """Return what this client is known by to a server, if it is."""
        return None

    def known_as(self) -> str | None:
        """Return the only client identifier that this client goes by, if there is only one."""
        return None

    signing_key: PrivateKey | None = None

    # What a transport asks

    @property
    def principal(self) -> str:
        """What tells one who asks from another."""
        token = self._token
        who = None if token is None else (token.issuer, token.client_id, token.subject)
        return sha256(msgspec.json.encode((self.kind, self.account, who))).hexdigest()[:32]

    async def headers(self, url: str, method: str = "POST") -> Mapping[str, str]:
        """Return the headers that one request to ``url`` takes; none if there is no token yet, or not for that server.

        Raises:
            AuthorizationError: there should be a token, and it cannot be had.
        """
        if not self._bind(url):
            return {}
        if not self._loaded:
            await self._join(self._load)
        token = self._token
        if token is not None and token.expired(self.clock()):
            await self._join(self._renew_expired)
            token = self._token
        if token is None:
            return {}
        headers = {"authorization": f"{token.token_type} {token.access_token}"}
        if token.key is not None:
            headers["dpop"] = self._prove_with(token).prove(method, url, self.clock(), token.access_token)
        return headers

    async def refused(
        self,
        url: str,
        status: int,
        challenges: Sequence[str],
        revision: str | None,
        *,
        sent: Mapping[str, str] | None = None,
        nonce: str | None = None,
    ) -> bool:
        """Get the token that a refusal (401 or 403) asks for, and say whether the request is worth another try.

        Raises:
            AuthorizationError: there is none to be had.
        """
        if status not in (401, 403) or not self._bind(url):
            return False
        found = read_challenges(challenges)
        challenge = choose_challenge(found)
        lacks_scope = challenge is not None and challenge.parameters.get("error") == "insufficient_scope"
        if status == 403 and not lacks_scope:
            return False
        carried = None if sent is None else sent.get("authorization")
        if self._takes_nonce(url, challenge, sent, nonce):
            return True
        if self._work is not None:
            await self._join(None)  # what is under way now is what this request needs too, most likely
            return True
        token = self._token
        if token is not None and sent is not None and carried != f"{token.token_type} {token.access_token}":
            return True  # there is a better one since
        if lacks_scope and token is not None and challenge is not None:
            await self._join(lambda: self._step_up(url, challenge, revision))
        else:
            await self._join(lambda: self._renew_refused(url, challenge, revision))
        return True

    async def close(self) -> None:
        """Let go of connections and of whatever is under way. Tokens are kept."""
        work, self._work = self._work, None
        if work is not None:
            work.cancel()
            with suppress(asyncio.CancelledError, AuthorizationError):
                await work
        await self.fetcher.close()

    # One thing at a time

    async def _join(self, begin: Any) -> None:
        """Wait for what is under way, or for what ``begin`` does if nothing is.

        It goes on if whoever waits for it gives up: a user who is logging in should not find that nobody waits.
        """
        if self._work is None:
            coroutine: Coroutine[Any, Any, None] = begin()
            self._work = asyncio.create_task(coroutine)
            self._work.add_done_callback(self._ended)
        work = self._work
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if work.cancelled() and task is not None and not task.cancelling():  # these credentials were closed
                raise AuthorizationError("The authorization was given up") from None
            raise

    def _ended(self, task: asyncio.Task[None]) -> None:
        if self._work is task:
            self._work = None
        if not task.cancelled():
            task.exception()  # whoever waited has it; if nobody did, nobody needs it

    # To whom a token goes

    def _bind(self, url: str) -> bool:
        """Say whether ``url`` is of the server that tokens are for; the first one that is asked about becomes that."""
        try:
            parts = urlsplit(url)
            host = (parts.hostname or "").lower()
            origin = origin_of(url)
        except ValueError:
            return False
        if self._url is None:
            if parts.scheme.lower() != "https" and not is_loopback(host):
                raise AuthorizationError(f"{url} is not https: no token is sent there, for everybody could read it")
            self._url = canonical(url.partition("#")[0].partition("?")[0])
            self.hosts.add(host)
            if is_loopback(host):
                self.hosts.update(LOOPBACK)
            if self.issuer is not None:
                self.hosts.add((urlsplit(self.issuer).hostname or "").lower())
        return origin == origin_of(self._url)

    # Tokens of before

    def _name(self, *parts: str | None) -> str:
        return msgspec.json.encode((*parts, self.account)).decode()

    async def _load(self) -> None:
        text = await self.store.get(self._name("server", self._url, self.kind))
        with suppress(msgspec.DecodeError):
            pointer = None if text is None else msgspec.json.decode(text, type=Pointer)
            if pointer is not None and self._fits(pointer):
                self._token = await self._stored(pointer)
                self.issuer = self.issuer or (pointer.issuer if self.known_as() is not None else None)
        self._loaded = True

    def _fits(self, pointer: Pointer) -> bool:
        return self.issuer in (None, pointer.issuer) and self.known_as() in (None, pointer.client_id)

    async def _stored(self, pointer: Pointer) -> Token | None:
        name = self._name("token", pointer.issuer, pointer.resource, pointer.client_id)
        text = await self.store.get(name)
        token = None if text is None else msgspec.json.decode(text, type=Token)
        return None if token is None or token.issuer != pointer.issuer else token

    async def _keep(self, token: Token) -> None:
        self._token = token
        pointer = Pointer(token.issuer, token.resource, token.client_id)
        await self.store.put(
            self._name("token", token.issuer, token.resource, token.client_id), msgspec.json.encode(token).decode()
        )
        await self.store.put(self._name("server", self._url, self.kind), msgspec.json.encode(pointer).decode())

    async def _forget(self) -> None:
        token, self._token = self._token, None
        if token is not None:
            await self.store.delete(self._name("token", token.issuer, token.resource, token.client_id))
            await self.store.delete(self._name("server", self._url, self.kind))

    # DPoP

    def _prove_with(self, token: Token) -> Prover:
        if self._prover is None or self._prover.key.private() != token.key:
            self._prover = Prover(token.key)
        return self._prover

    def prover(self, place: AuthorizationTarget) -> Prover | None:
        """Return what tokens are bound to, if they are to be.

        Raises:
            AuthorizationError: they are to be, and the authorization server does not do that.
        """
        if not (place.bound if self._dpop is None else self._dpop):
            return None
        if ALGORITHM not in (place.server.dpop_signing_alg_values_supported or ()):
            raise AuthorizationError(f"{place.server.issuer} binds no tokens to keys with {ALGORITHM} (DPoP)")
        if self._prover is None:
            self._prover = Prover()
        return self._prover

    def _takes_nonce(
        self, url: str, challenge: Challenge | None, sent: Mapping[str, str] | None, nonce: str | None
    ) -> bool:
        """Take note of a nonce; say whether the lack of it was all that was wrong."""
        if nonce is None or self._token is None or self._token.key is None:
            return False
        self._prove_with(self._token).note(url, nonce)
        proof = (sent or {}).get("dpop")
        asked = challenge is not None and challenge.parameters.get("error") == "use_dpop_nonce"
        return asked and (proof is None or nonce_of(proof) != nonce)

    # Getting tokens

    async def _renew_expired(self) -> None:
        """Get a token for one that has expired, as far as that can be done without the user."""
        token = self._token
        if token is None or not token.expired(self.clock()):
            return
        newer = await self._newer(token)
        if newer is not None:
            self._token = newer
            return
        place = await self._place_of(token)
        try:
            await self._refresh(token, place)
        except TokenRefused:
            if self.interactive:
                await self._forget()  # the server will ask for another one
            else:
                await self._grant(place, token.requested)

    async def _newer(self, token: Token) -> Token | None:
        """Return the token that another process has got in the meantime, if one has."""
        pointer = Pointer(token.issuer, token.resource, token.client_id)
        with suppress(msgspec.DecodeError):
            stored = await self._stored(pointer)
            if (
                stored is not None
                and stored.access_token != token.access_token
                and stored.issued >= token.issued
                and not stored.expired(self.clock())
            ):
                return stored
        return None

    async def _place_of(self, token: Token) -> AuthorizationTarget:
        """Return where a token came from."""
        if self._place is None or self._place.server.issuer != token.issuer:
            if token.resource is None:
                server = await find_server_of_old(self._url or "", self.fetcher, self.hosts, {})
            else:
                server = await find_server(token.issuer, self.fetcher, self.hosts, {})
            self._place = AuthorizationTarget(server, token.resource, None, token.key is not None, True)
        return self._place

    async def _refresh(self, token: Token, place: AuthorizationTarget) -> None:
        """Get a token for a refresh token, if there is one; otherwise the token is forgotten.

        https://www.rfc-editor.org/rfc/rfc6749#section-6

        Raises:
            TokenRefused: the refresh token is not good (any more).
        """
        identity = await self.identify(place.server)
        ours = identity is not None and (identity.issuer, identity.id) == (token.issuer, token.client_id)
        if identity is None or not ours or token.refresh_token is None:
            raise TokenRefused("There is no refresh token", None)
        if token.key is not None:
            self._prove_with(token)
        form = {"grant_type": "refresh_token", "refresh_token": token.refresh_token}
        try:
            issued, _ = await request_token(
                place.server,
                identity,
                form,
                self.fetcher,
                self.clock,
                key=self.signing_key,
                prover=None if token.key is None else self._prover,
                requested=token.scopes,
                resource=token.resource,
            )
        except TokenRefused as error:
            await self.disowned(identity, error)
            raise
        kept = msgspec.structs.replace(
            issued,
            refresh_token=issued.refresh_token or token.refresh_token,
            requested=token.requested,
            subject=issued.subject or token.subject,
        )
        await self._keep(kept)

    async def _find_place(self, url: str, challenge: Challenge | None, revision: str | None) -> AuthorizationTarget:
        """Find out where tokens for the server come from: perhaps no longer from where they did."""
        before = None if self._token is None else self._token.issuer
        self._place = await find_place(
            url,
            challenge,
            revision,
            fetcher=self.fetcher,
            hosts=self.hosts,
            registered_with=self.issuer,
            before=before,
        )
        return self._place

    async def _renew_refused(self, url: str, challenge: Challenge | None, revision: str | None) -> None:
        """Get a token for one that was refused, or the first one."""
        token, now = self._token, self.clock()
        place = await self._find_place(url, challenge, revision)
        if token is not None and token.issuer != place.server.issuer:  # the server goes by another one now
            self._renewals.clear()
            await self._forget()
            token = None
        if token is not None:
            newer = await self._newer(token)
            if newer is not None:
                self._token = newer
                return
            if len(self._renewals) == MAX_RENEWALS and now - self._renewals[0] < RECENTLY:
                await self._forget()
                raise AuthorizationError(
                    f"{url} does not accept the access tokens that {token.issuer} issues for "
                    f"{token.resource or 'it'}: whoever runs it has to look at that"
                )
            self._renewals.append(now)
            with suppress(TokenRefused):
                await self._refresh(token, place)
                return
        held = frozenset() if token is None else token.requested
        asked = read_scope(None if challenge is None else challenge.parameters.get("scope"))
        scopes = select_scopes(asked, place.scopes_supported, wanted=self.wanted, held=held)
        await self._grant(place, scopes)

    async def _step_up(self, url: str, challenge: Challenge, revision: str | None) -> None:
        """Get a token that can do more, besides what the one of now can.

        https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#step-up-authorization-flow
        """
        token = self._token
        asked = read_scope(challenge.parameters.get("scope"))
        held = frozenset() if token is None else token.requested | token.scopes
        words = " ".join(sorted(asked)) or "more than the token has"
        if asked and token is not None and asked <= token.scopes:
            raise AuthorizationError(f"{url} asks for {words}, which its access token has: it will not do")
        scopes = held | asked | self.wanted
        taken = self._steps.get(scopes, 0)
        if taken >= MAX_STEPS or not asked:
            raise AuthorizationError(f"{url} asks for {words}, which cannot be had from its authorization server")
        self._steps[scopes] = taken + 1
        await self._grant(await self._find_place(url, challenge, revision), scopes)
        if self._token is not None and asked <= self._token.scopes:
            del self._steps[scopes]

    async def _grant(self, place: AuthorizationTarget, scopes: frozenset[str]) -> None:
        if self.known_as() is not None and self.issuer is None:
            self.issuer = place.server.issuer  # from now on: what is about to be sent there goes nowhere else
        token = await self.grant(place, scopes)
        if self._dpop and token.key is None:
            raise AuthorizationError(f"{place.server.issuer} issued a token that is not bound to a key (DPoP)")
        await self._keep(token)
