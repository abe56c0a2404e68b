"""Tokens of Scalekit."""

from __future__ import annotations

from typing import Any

from pydantic import AnyHttpUrl

from carrel.compat.fastmcp.server.auth.auth import TokenVerifier
from carrel.compat.fastmcp.server.auth.providers.forwarding import ForwardingProvider
from carrel.compat.fastmcp.server.auth.providers.jwt import JWTVerifier
from carrel.compat.fastmcp.utilities.auth import parse_scopes

__all__ = ["ScalekitProvider"]


class ScalekitProvider(ForwardingProvider):
    """Resource server for tokens of a Scalekit environment. ``mcp_url`` is an earlier name of ``base_url``.

    Raises:
        ValueError: the URL of this server is missing.
    """

    def __init__(
        self,
        *,
        environment_url: AnyHttpUrl | str,
        resource_id: str,
        base_url: AnyHttpUrl | str | None = None,
        mcp_url: AnyHttpUrl | str | None = None,
        client_id: str | None = None,
        required_scopes: list[str] | None = None,
        token_verifier: TokenVerifier | None = None,
        **options: Any,
    ) -> None:
        own = base_url or mcp_url
        if not own:
            raise ValueError("Either base_url or mcp_url must be provided")
        self.environment_url = str(environment_url).rstrip("/")
        self.resource_id = resource_id
        super().__init__(
            service="Scalekit",
            metadata_url=(
                f"{self.environment_url}/.well-known/oauth-authorization-server/resources/{self.resource_id}"
            ),
            token_verifier=token_verifier
            or JWTVerifier(
                jwks_uri=f"{self.environment_url}/keys",
                issuer=self.environment_url,
                algorithm="RS256",
                audience=resource_id,
                required_scopes=parse_scopes(required_scopes),
            ),
            authorization_server=f"{self.environment_url}/resources/{self.resource_id}",
            base_url=str(own),
            **options,
        )
