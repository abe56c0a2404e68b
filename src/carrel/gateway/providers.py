"""Creates the provider for each server of a gateway, with the required sessions and credentials."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from carrel.client.client import Client
from carrel.gateway.isolation import IsolatedProvider
from carrel.gateway.logins import LoginProvider
from carrel.gateway.no_grant import NoGrant
from carrel.gateway.sessions import SessionLimits
from carrel.host.config.server_config import Isolation, ServerConfig
from carrel.host.hosted_server import HostedServer
from carrel.host.relayed import RELAYED
from carrel.transports.client.options import HTTPOptions, ProcessOptions
from carrel.transports.client.transport import Credentials

if TYPE_CHECKING:
    from carrel.gateway.grants import Grant, Grants
    from carrel.protocol.principal import Principal

__all__ = ["GivenGrants", "OfPrincipal", "Own", "Providers"]

GivenGrants: TypeAlias = "Grants | Callable[[], Grants]"
"""Grants, or a function that creates them on first use, as the OAuth modules are slow to import."""
Own: TypeAlias = Credentials | str | Mapping[str, str] | None
"""Credentials of one principal: a token, headers or ``Credentials`` for a URL; environment variables for a command."""
OfPrincipal = Callable[["Principal | None", ServerConfig], Own]
"""Returns the credentials of a principal at a server, or None to use a grant or the configured credentials."""


class Providers:
    """Factory for the providers of a gateway's servers. ``grants`` are used at servers where each user logs in."""

    def __init__(
        self, limits: SessionLimits, grants: GivenGrants | None = None, credentials: OfPrincipal | None = None
    ) -> None:
        self._limits = limits
        self._grants = grants
        self._credentials = credentials

    def of(self, server: HostedServer) -> IsolatedProvider:
        """Return the provider for a server whose connection has begun."""
        provider: IsolatedProvider
        config = server.config

        async def connect(principal: Principal | None) -> Client:
            if provider.separate_credentials:
                return await self._connect(server, principal)
            return await server.another_client()

        def grant_of(principal: Principal | None) -> Grant:
            assert config.url is not None
            return self.grants().of(server.name, config.url, principal)

        make: Callable[..., IsolatedProvider] = IsolatedProvider
        if self._grants is not None and config.url is not None:
            make = partial(LoginProvider, grant_of=grant_of)
        separate_credentials = self._credentials is not None
        provider = make(
            default=server.provider,
            name=server.name,
            isolation=own_isolation(config, separate_credentials=separate_credentials),
            limits=self._limits,
            connect=connect,
            separate_credentials=separate_credentials,
        )
        return provider

    def grants(self) -> Grants:
        """Return the users' grants. Create them on first use."""
        assert self._grants is not None
        if callable(self._grants):
            self._grants = self._grants()
        return self._grants

    async def close(self) -> None:
        """Close the connections of the grants, and cancel logins in progress."""
        if self._grants is not None and not callable(self._grants):
            await self._grants.close()

    def shared_credentials(self, config: ServerConfig) -> Credentials | None:
        """Return the credentials for the session without a principal."""
        if config.url is None or (self._grants is None and self._credentials is None):
            return None
        return NoGrant(config.name)

    async def _connect(self, server: HostedServer, principal: Principal | None) -> Client:
        config = server.config
        own = None if self._credentials is None else self._credentials(principal, config)
        if config.url is None:
            if isinstance(own, Mapping):
                return await server.new_client(handlers=RELAYED, process=ProcessOptions(env=own))
            return await server.another_client()
        if own is None and self._grants is not None:
            own = self.grants().of(server.name, config.url, principal)
        if isinstance(own, Mapping):
            return await server.new_client(handlers=RELAYED, http=HTTPOptions(headers=own))
        if own is None:
            return await server.another_client()
        return await server.new_client(handlers=RELAYED, http=HTTPOptions(auth=own))


def own_isolation(config: ServerConfig, *, separate_credentials: bool) -> Isolation:
    """Return the isolation of sessions. If callers have separate credentials, it is "principal" instead of "shared"."""
    return "principal" if separate_credentials and config.isolation == "shared" else config.isolation
