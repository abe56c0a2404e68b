"""Sessions and logins of ``carrel gateway``, from the settings of ``[gateway]``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypedDict

from carrel.cli.config.read import Configuration
from carrel.cli.server.shared_state import store_of
from carrel.errors import AuthorizationError, ConfigError, LoginRequired
from carrel.transports.addresses import is_loopback

if TYPE_CHECKING:
    from carrel.gateway.browser_login import IssuerLogin
    from carrel.gateway.browser_pages import BrowserPages
    from carrel.gateway.grants import Grants
    from carrel.gateway.providers import GivenGrants
    from carrel.gateway.sessions import SessionLimits
    from carrel.host.config.server_config import ServerConfig
    from carrel.security.client.storage import TokenStore
    from carrel.state.replica import Replica
    from carrel.transports.client.transport import AuthorizationRejection, Credentials
    from carrel.transports.server.options import ServeOptions

__all__ = ["IsolationOptions", "isolation_options", "shared_login"]


class IsolationOptions(TypedDict):
    """Options of ``Gateway``."""

    sessions: SessionLimits
    grants: GivenGrants | None


def isolation_options(
    configuration: Configuration, http: ServeOptions | None, replica: Callable[[], Replica]
) -> IsolationOptions:
    """Return the options of the gateway. ``replica`` returns the gateway among its replicas.

    Raises:
        ConfigError: a setting is invalid.
    """
    from carrel.gateway.sessions import SessionLimits

    settings = configuration.settings.gateway
    limits = SessionLimits(
        max_sessions=settings.max_sessions,
        max_sessions_per_principal=settings.max_sessions_per_principal,
        idle_seconds=settings.idle_seconds,
    )
    try:
        return {"sessions": limits, "grants": _grants(configuration, http, replica) if settings.logins else None}
    except ConfigError as error:
        raise ConfigError(f"{configuration.where('gateway')}: [gateway] {error}") from error


def shared_login(http: ServeOptions | None) -> Callable[[ServerConfig], Credentials | None]:
    """Return a function that creates the credentials of sessions without a principal, for each server with a URL.

    Credentials of ``carrel login`` belong to the user of this machine. Authenticated callers must not use them.
    """
    from carrel.gateway.no_grant import NoGrant

    def credentials(config: ServerConfig) -> Credentials | None:
        if any(name.lower() == "authorization" for name in config.headers):
            return None
        if http is not None and (http["authorization"] is not None or not is_loopback(http["host"])):
            return NoGrant(config.name)
        return _stored_login(config)

    return credentials


def _stored_login(config: ServerConfig) -> Credentials:
    from carrel.cli.client.stored_login import StoredLogin

    class OwnLogin(StoredLogin):
        """Credentials of ``carrel login``. Raises ``LoginRequired`` if there are none, so that gateway users are asked
        to log in.
        """

        async def rejected(self, rejection: AuthorizationRejection) -> bool:
            try:
                return await super().rejected(rejection)
            except AuthorizationError as error:
                raise LoginRequired(f"{config.name}: {error}") from error

    return OwnLogin()


def _grants(
    configuration: Configuration, http: ServeOptions | None, replica: Callable[[], Replica]
) -> GivenGrants | None:
    """Return the grants of users, or None if callers or their browsers cannot be identified."""
    settings = configuration.settings.gateway
    if http is None:
        keys = _keys(settings.keys)
        return lambda: _make(keys, None)
    if http["authorization"] is None and not is_loopback(http["host"]):
        return None  # all callers would be the same principal and share a grant
    url = settings.public_url
    if url is None:
        if not http["port"] or not is_loopback(http["host"]):
            return None
        host = f"[{http['host']}]" if ":" in http["host"] else http["host"]
        url = f"http{'s' if http['certificate'] else ''}://{host}:{http['port']}"
    from carrel.gateway.browser_pages import BrowserPages

    keys, pages = _keys(settings.keys), BrowserPages(url, login=_login(configuration, url))
    if configuration.settings.state.url is None:
        return _make(keys, pages)
    from carrel.state.shared_texts import SharedTexts

    # Replicas need the same key.
    return _make(keys or store_of(configuration).keys, pages, SharedTexts(replica, "grants"))


def _keys(text: str | None) -> Sequence[bytes]:
    if text is None:
        return ()
    from carrel.gateway.vault import parse_keys

    return parse_keys(text)


def _make(keys: Sequence[bytes], pages: BrowserPages | None, store: TokenStore | None = None) -> Grants:
    from carrel.gateway.grants import Grants  # imports the OAuth packages

    return Grants(pages, keys=keys, store=store)


def _login(configuration: Configuration, url: str) -> IssuerLogin | None:
    """Return the browser login at the issuer of access tokens, or None."""
    issuer = configuration.settings.auth.issuer
    if issuer is None:
        return None
    from carrel.gateway.browser_login import IssuerLogin

    settings = configuration.settings.gateway
    options: dict[str, str] = {}
    if settings.client_id is not None:
        options["client_id"] = settings.client_id
    if settings.client_secret is not None:
        options["client_secret"] = settings.client_secret
    return IssuerLogin(url, issuer if isinstance(issuer, str) else issuer[0], **options)
