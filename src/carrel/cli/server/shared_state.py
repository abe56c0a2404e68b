"""State that ``serve``, ``run`` and ``gateway`` share with other servers, from ``[state]`` or ``--state``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from carrel.errors import ConfigError
from carrel.references import look_up, substitute

if TYPE_CHECKING:
    from carrel.cli.config.read import Configuration
    from carrel.server.app import Server

__all__ = ["SharedStore", "add_state", "store_of"]

KEYS = "CARREL_STATE_KEYS"


class SharedStore(NamedTuple):
    """Store of servers: its URL, keys and prefix."""

    url: str
    keys: list[bytes]
    prefix: str


def store_of(configuration: Configuration) -> SharedStore:
    """Return the store of a configuration that has its URL.

    Raises:
        ConfigError: a key is missing or not valid.
    """
    settings = configuration.settings.state
    assert settings.url is not None
    if settings.keys is None:
        raise ConfigError(
            f"{configuration.origins['state.url'].text}: servers that share a state need the same key, which encrypts "
            f"it: set {KEYS}, or [state] keys (openssl rand -hex 32 makes a key)"
        )
    from carrel.gateway.vault import parse_keys

    url = substitute(settings.url, lambda name: look_up(name, configuration.folder, secret=True))
    return SharedStore(url, parse_keys(settings.keys, KEYS), settings.prefix)


def add_state(app: Server[Any], configuration: Configuration) -> None:
    """Use the shared state of the configuration, or of the workers, if there is one.

    Raises:
        ConfigError: the URL or a key is missing or not valid, or a package is missing.
    """
    settings = configuration.settings.state
    if settings.url is None:
        if configuration.given("state"):
            raise ConfigError(f"{configuration.where('state')}: [state] needs a url")
        if configuration.worker is not None:
            configuration.worker.share_state(app)
        return
    where = configuration.origins["state.url"].text
    if configuration.settings.http.port is None:
        raise ConfigError(f"{where}: only servers over HTTP share a state; add --http")
    store = store_of(configuration)
    from carrel.state.redis.state import RedisState

    machine = "" if configuration.worker is None else configuration.worker.key.hex()
    app.share_state(RedisState(store.url, store.keys, prefix=store.prefix, machine=machine), store.keys)
