"""Tokens of PropelAuth."""

from __future__ import annotations

from typing import Any, TypedDict

from pydantic import AnyHttpUrl, SecretStr

from carrel.compat.fastmcp.http_library import httpx
from carrel.compat.fastmcp.server.auth.auth import AccessToken
from carrel.compat.fastmcp.server.auth.providers.forwarding import ForwardingProvider
from carrel.compat.fastmcp.server.auth.providers.introspection import IntrospectionTokenVerifier

__all__ = ["PropelAuthProvider", "PropelAuthTokenIntrospectionOverrides"]


class PropelAuthTokenIntrospectionOverrides(TypedDict, total=False):
    """Options of the introspection."""

    timeout_seconds: int
    cache_ttl_seconds: int | None
    max_cache_size: int | None
    http_client: httpx.AsyncClient | None


class PropelAuthProvider(ForwardingProvider):
    """Resource server for tokens of PropelAuth, issued for ``resource``, if it is given."""

    def __init__(
        self,
        *,
        auth_url: AnyHttpUrl | str,
        introspection_client_id: str,
        introspection_client_secret: str | SecretStr,
        base_url: AnyHttpUrl | str,
        required_scopes: list[str] | None = None,
        resource: AnyHttpUrl | str | None = None,
        token_introspection_overrides: PropelAuthTokenIntrospectionOverrides | None = None,
        **options: Any,
    ) -> None:
        home = str(auth_url).rstrip("/")
        self._resource = None if resource is None else str(resource)
        given: dict[str, Any] = {**(token_introspection_overrides or {})}
        allowed = PropelAuthTokenIntrospectionOverrides.__annotations__
        super().__init__(
            service="PropelAuth",
            metadata_url=f"{home}/.well-known/oauth-authorization-server/oauth/2.1",
            token_verifier=IntrospectionTokenVerifier(
                introspection_url=f"{home}/oauth/2.1/introspect",
                client_id=introspection_client_id,
                client_secret=introspection_client_secret,
                required_scopes=required_scopes,
                **{name: given[name] for name in allowed if name in given},
            ),
            authorization_server=f"{home}/oauth/2.1",
            base_url=base_url,
            **options,
        )

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the access token, or None if it is not valid or was issued for another resource."""
        found = await super().verify_token(token)
        if found is None or self._resource is None:
            return found
        return found if found.claims.get("aud") == self._resource else None
