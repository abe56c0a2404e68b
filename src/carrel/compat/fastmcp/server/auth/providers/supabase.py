"""Tokens of Supabase."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import AnyHttpUrl

from carrel.compat.fastmcp.server.auth.auth import TokenVerifier
from carrel.compat.fastmcp.server.auth.providers.forwarding import ForwardingProvider
from carrel.compat.fastmcp.server.auth.providers.jwt import JWTVerifier
from carrel.compat.fastmcp.utilities.auth import parse_scopes

__all__ = ["SupabaseProvider"]


class SupabaseProvider(ForwardingProvider):
    """Resource server for tokens of a Supabase project. Their audience does not name the resource."""

    def __init__(
        self,
        *,
        project_url: AnyHttpUrl | str,
        base_url: AnyHttpUrl | str,
        auth_route: str = "/auth/v1",
        algorithm: Literal["RS256", "ES256"] = "ES256",
        required_scopes: list[str] | None = None,
        token_verifier: TokenVerifier | None = None,
        **options: Any,
    ) -> None:
        self.project_url = str(project_url).rstrip("/")
        self.auth_route = auth_route.strip("/")
        issuer = f"{self.project_url}/{self.auth_route}"
        super().__init__(
            service="Supabase",
            metadata_url=f"{issuer}/.well-known/oauth-authorization-server",
            token_verifier=token_verifier
            or JWTVerifier(
                jwks_uri=f"{issuer}/.well-known/jwks.json",
                issuer=issuer,
                algorithm=algorithm,
                audience="authenticated",
                required_scopes=parse_scopes(required_scopes),
            ),
            authorization_server=issuer,
            base_url=str(base_url).rstrip("/"),
            **options,
        )
