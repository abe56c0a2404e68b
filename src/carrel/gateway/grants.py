"""Grants: per-principal credentials for the upstreams of a gateway.

A caller's token is for the gateway only, and is never passed through to an upstream. If an upstream requires a token,
the user is asked to log in there (URL mode elicitation). The grant is stored encrypted, refreshed, and used for this
principal only.

https://modelcontextprotocol.io/specification/2026-07-28/basic/security_best_practices#token-passthrough
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from carrel.errors import AuthorizationError, LoginRequired, MissingCapability, URLElicitationRequired
from carrel.gateway.browser_pages import BrowserPages, PendingAuthorization
from carrel.gateway.no_grant import FOR_CLIENT
from carrel.gateway.vault import Vault, VaultKeys
from carrel.host.relay import RELAY, RelayContext
from carrel.log import Log
from carrel.security.client import OAuth
from carrel.security.client.revocation import NotRevoked
from carrel.security.client.storage import TokenStore, UserStore
from carrel.transports.client.transport import AuthorizationRejection

if TYPE_CHECKING:
    from carrel.protocol.principal import Principal

__all__ = ["Grant", "Grants"]

log = Log("carrel.gateway")

T = TypeVar("T")
#: Maximum number of grants in memory. Grants in use are never evicted.
MAX_GRANTS = 1000


class Grants:
    """Grants of all principals.

    Args:
        pages: pages for users on the gateway's HTTP server; None for a gateway on stdio, whose single user has a
            browser on this machine.
        store: store for the encrypted grants; by default the same as for clients (keyring, or files).
        keys: keys of 32 bytes; the first key encrypts, every key decrypts. By default the keys in the environment
            variable ``CARREL_GATEWAY_KEYS``, or a key that is generated once and kept in ``store``.
        patience: seconds that a user has to log in.
        oauth: returns additional options of ``OAuth`` by upstream name, such as a registered client. Registered clients
            and clients with a metadata document share ``BrowserPages.redirect_uri``, unless the options have a
            ``redirect_uri`` below it. Give each of them one if its authorization server does not name itself in its
            responses (``iss``): another server could pass a response off as its own (RFC 9700, section 4.4.2).
    """

    def __init__(
        self,
        pages: BrowserPages | None = None,
        *,
        store: TokenStore | None = None,
        keys: Sequence[bytes] = (),
        patience: float = 600.0,
        oauth: Callable[[str], Mapping[str, Any]] | None = None,
    ) -> None:
        self.pages = pages
        self._store: TokenStore = UserStore() if store is None else store
        self._keys = VaultKeys(keys, self._store)
        self._patience = patience
        self._oauth = oauth
        self._grants: dict[tuple[str, str, str | None], Grant] = {}
        self._registering: dict[tuple[str, str], asyncio.Lock] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def of(self, upstream: str, url: str, principal: Principal | None) -> Grant:
        """Return the ``Grant`` of a principal at an upstream, also if the user has not logged in yet."""
        key = (upstream, url, None if principal is None else principal.id)
        found = self._grants.pop(key, None)
        if found is None:
            self._make_room()
            account = "" if principal is None else principal.id
            options = {
                "client_name": "Carrel gateway",
                "store": Vault(self._store, self._keys, account),
                "account": account,
                "patience": self._patience,
                **({} if self._oauth is None else self._oauth(upstream)),
            }
            registering = self._registering.setdefault((upstream, url), asyncio.Lock())
            found = Grant(self.pages, upstream, url, principal, options, registering)
        self._grants[key] = found  # most recently used last
        return found

    def _make_room(self) -> None:
        """Evict the least recently used grants that no session uses. They stay in the store."""
        for key, grant in list(self._grants.items()):
            if len(self._grants) < MAX_GRANTS:
                return
            if not grant.busy:
                del self._grants[key]
                task = asyncio.ensure_future(grant.shut())
                self._closing.add(task)
                task.add_done_callback(self._closing.discard)

    async def revoke(self, upstream: str, url: str, principal: Principal | None) -> bool:
        """Revoke and delete the grant of a principal, and return whether it existed.

        On the next request, the user has to log in again. If the authorization server does not revoke the grant, a
        warning is logged.
        """
        return await self.of(upstream, url, principal).forget()

    async def close(self) -> None:
        """Close connections, and cancel logins in progress."""
        grants, self._grants = list(self._grants.values()), {}
        await asyncio.gather(*(grant.shut() for grant in grants), *self._closing)


class Grant:
    """Grant of one principal at one upstream, to pass as ``HTTPOptions(auth=…)`` to the principal's clients.

    If the upstream rejects a request and the grant cannot be refreshed, the client that sent the request is asked to
    have its user log in. If the client does not support this, ``LoginRequired`` is raised.
    """

    def __init__(
        self,
        pages: BrowserPages | None,
        upstream: str,
        url: str,
        principal: Principal | None,
        options: Mapping[str, Any],
        registering: asyncio.Lock,
    ) -> None:
        self.upstream = upstream
        self._url = url
        self._principal = principal
        self._pages = pages
        if pages is None:
            own: dict[str, Any] = {"open_url": self._open}
        else:
            own = {"authorize": self._authorize, "redirect_uri": pages.redirect_uri}
        self._auth = OAuth(**{**own, **options})
        self._auth.registering = registering
        if pages is not None:
            self._auth.state_prefix = pages.shared.mark
            if "redirect_uri" not in options:
                self._auth.redirect_uri_of = pages.redirect_uri_of
        self._page: str | None = None
        self._pending: PendingAuthorization | None = None
        self._waiting = asyncio.Event()
        self._rejection: AuthorizationRejection | None = None
        self._asked: list[tuple[RelayContext, str]] = []
        self.given: list[Callable[[], object]] = []
        """Callbacks for when the user has logged in."""

    @property
    def busy(self) -> bool:
        """Whether a session uses this grant, or its user is logging in."""
        return bool(self.given) or self._waiting.is_set() or self._auth.work is not None

    # Interface for transports

    @property
    def principal(self) -> str:
        """Identifier that separates cached responses."""
        return self._auth.principal

    @property
    def extensions(self) -> Mapping[str, Mapping[str, Any]]:
        """Extensions that clients with these credentials declare."""
        return self._auth.extensions

    async def headers(self, url: str, method: str = "POST") -> Mapping[str, str]:
        """Return the authorization headers for one request, or no headers before the user has logged in."""
        return await self._auth.headers(url, method)

    async def rejected(self, rejection: AuthorizationRejection) -> bool:
        """Get or refresh the grant after a request was rejected, and return whether to retry the request.

        Raises:
            LoginRequired: the user has to log in, but the client does not support URL mode elicitation.
            URLElicitationRequired: the user has to log in, after which the client has to retry its request.
        """
        self._rejection = rejection
        if await self.given_elsewhere():
            return True
        return await self._with_user(self._auth.rejected(rejection))

    async def close(self) -> None:
        """No-op: all sessions of the principal share this grant. ``shut`` closes it."""

    async def shut(self) -> None:
        """Close connections, and cancel a login in progress."""
        await self._auth.close()

    # Logging in

    async def log_in(self) -> None:
        """Ask the user to log in, without another request to the upstream first.

        Raises:
            LoginRequired, URLElicitationRequired: see ``refused``.
        """
        if await self.given_elsewhere():
            return
        rejection = self._rejection or AuthorizationRejection(self._url, 401)
        if not await self._auth.headers(rejection.url):
            await self._with_user(self._auth.rejected(rejection._replace(sent=None, nonce=None)))

    async def given_elsewhere(self) -> bool:
        """Return whether the user has logged in at another replica meanwhile."""
        return await self._auth.found_elsewhere()

    async def forget(self) -> bool:
        """Revoke and delete the grant, and return whether it existed. Log a warning if it cannot be revoked."""
        try:
            return await self._auth.revoke(self._url)
        except NotRevoked as error:
            log.warning("%s: a grant is forgotten, but good until it expires: %s", self.upstream, error)
            return True

    async def _with_user(self, work: Awaitable[T]) -> T:
        """Return the result of ``work``, and ask the user to log in if the work needs it.

        If this is cancelled, ``OAuth`` continues in the background: users may log in after the request has ended.
        """
        working = asyncio.ensure_future(work)
        waiting = asyncio.ensure_future(self._waiting.wait())
        try:
            await asyncio.wait((working, waiting), return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                await self._ask()
            return await working
        except AuthorizationError as error:
            raise LoginRequired(f"{self.upstream}: {error}") from error
        finally:
            for task in (working, waiting):
                task.cancel()
            await asyncio.gather(working, waiting, return_exceptions=True)

    async def _ask(self) -> None:
        """Send a URL mode elicitation for the login page to the client whose request is in progress.

        Raises:
            LoginRequired: the client does not support it, or the user declines.
        """
        page, relay = self._page, RELAY.get()
        assert page is not None
        if self._pending is not None:
            self._pending.extend()
        words = f"{self.upstream} needs you to log in, so that it can be used for you."
        if relay is None:
            advice = f" Open this page in your browser, then try again: {page}" if FOR_CLIENT.get() else ""
            raise LoginRequired(f"{words}{advice}", page if advice else None)
        try:
            answer = await relay.ask(
                lambda context, key: self._elicit(context, f"{words} Open the page to do that.", page, key)
            )
        except MissingCapability:
            raise LoginRequired(f"{words} Open this page in your browser, then try again: {page}", page) from None
        if answer.action != "accept":
            raise LoginRequired(f"{self.upstream} cannot be used for you, as you did not want to log in there")
        if answer.id is not None and relay.context is not None:
            self._asked.append((relay.context, answer.id))

    async def _elicit(self, context: RelayContext, message: str, page: str, key: str) -> Any:
        try:
            return await context.elicit_url(message, page, key=key, required=True)
        except URLElicitationRequired as error:
            self._asked.append((context, error.id))
            raise

    # Functions of OAuth

    async def _authorize(self, url: str) -> str:
        """Let the user log in through the gateway's pages, and return the URL to which the browser was redirected."""
        assert self._pages is not None
        pending = self._pages.begin(self.upstream, self._principal, url)
        self._begin(self._pages.start_url(pending), pending)
        try:
            return await pending.wait()
        finally:
            self._end(pending)

    async def _open(self, url: str) -> None:
        """Have the user open the authorization page directly; a local HTTP server waits for the redirect."""
        self._begin(url, None)
        try:
            await asyncio.get_running_loop().create_future()  # until OAuth has the response
        finally:
            self._end(None)

    def _begin(self, page: str, pending: PendingAuthorization | None) -> None:
        self._page, self._pending = page, pending
        self._waiting.set()

    def _end(self, pending: PendingAuthorization | None) -> None:
        self._page = self._pending = None
        self._waiting.clear()
        work = self._auth.work
        if work is None:
            self._finish(pending, "The login was cancelled.")
        else:
            work.add_done_callback(lambda task: self._finish(pending, outcome_of(task)))

    def _finish(self, pending: PendingAuthorization | None, outcome: str | None) -> None:
        """Notify the browser, and the clients that were asked, that the login has ended."""
        if pending is not None and self._pages is not None:
            self._pages.end(pending, outcome)
        asked, self._asked = self._asked, []
        for context, id in asked:
            context.elicitation_completed(id)
        if outcome is None:
            for call in list(self.given):
                call()


def outcome_of(task: asyncio.Task[None]) -> str | None:
    """Return the error message of a login, or None if it succeeded."""
    if task.cancelled():
        return "The login was cancelled."
    error = task.exception()
    return None if error is None else str(error) if isinstance(error, AuthorizationError) else "The login has failed."
