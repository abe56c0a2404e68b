"""State that ``serve``, ``run`` and ``gateway`` share with other servers, from ``[state]`` or ``--state``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from carrel.errors import ConfigError
from carrel.references import look_up, substitute

if TYPE_CHECKING:
    from carrel.cli.config.read import Configuration
    from carrel.server.app import Server

__all__ = ["add_state"]

KEYS = "CARREL_STATE_KEYS"


def add_state(app: Server[Any], configuration: Configuration) -> None:
    """Use the shared state of the configuration, if it has one.

    Raises:
        ConfigError: the URL or a key is missing or not valid, or a package is missing.
    """
    settings = configuration.settings.state
    if settings.url is None:
        if configuration.given("state"):
            raise ConfigError(f"{configuration.where('state')}: [state] needs a url")
        return
    where = configuration.origins["state.url"].text
    if configuration.settings.http.port is None:
        raise ConfigError(f"{where}: only servers over HTTP share a state; add --http")
    if settings.keys is None:
        raise ConfigError(
            f"{where}: servers that share a state need the same key, which encrypts it: set {KEYS}, or [state] keys "
            "(openssl rand -hex 32 makes a key)"
        )
    from carrel.gateway.vault import parse_keys

    keys = parse_keys(settings.keys, KEYS)
    url = substitute(settings.url, lambda name: look_up(name, configuration.folder, secret=True))
    from carrel.state.redis.state import RedisState

    app.share_state(RedisState(url, keys, prefix=settings.prefix), keys)
