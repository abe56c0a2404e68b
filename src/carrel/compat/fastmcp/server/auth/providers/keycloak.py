"""Tokens of Keycloak."""

from __future__ import annotations

from pydantic import AnyHttpUrl

from carrel.compat.fastmcp.server.auth.auth import RemoteAuthProvider, TokenVerifier
from carrel.compat.fastmcp.server.auth.providers.jwt import JWTVerifier
from carrel.compat.fastmcp.utilities.auth import parse_scopes

__all__ = ["KeycloakAuthProvider"]


class KeycloakAuthProvider(RemoteAuthProvider):
    """Resource server for tokens of a realm."""

    def __init__(
        self,
        *,
        realm_url: AnyHttpUrl | str,
        base_url: AnyHttpUrl | str,
        required_scopes: list[str] | str | None = None,
        audience: str | list[str] | None = None,
        token_verifier: TokenVerifier | None = None,
    ) -> None:
        self.realm_url = str(realm_url).rstrip("/")
        verifier = token_verifier or JWTVerifier(
            jwks_uri=f"{self.realm_url}/protocol/openid-connect/certs",
            issuer=self.realm_url,
            algorithm="RS256",
            required_scopes=["openid"] if required_scopes is None else parse_scopes(required_scopes),
            audience=audience,
        )
        super().__init__(verifier, [AnyHttpUrl(self.realm_url)], str(base_url).rstrip("/"))
