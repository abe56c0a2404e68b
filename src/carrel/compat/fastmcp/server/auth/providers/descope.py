"""Tokens of Descope."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from pydantic import AnyHttpUrl

from carrel.compat.fastmcp.server.auth.auth import TokenVerifier
from carrel.compat.fastmcp.server.auth.providers.forwarding import ForwardingProvider
from carrel.compat.fastmcp.server.auth.providers.jwt import JWTVerifier
from carrel.compat.fastmcp.utilities.auth import parse_scopes

__all__ = ["DescopeProvider"]


class DescopeProvider(ForwardingProvider):
    """Resource server for tokens of a Descope project, by the URL of its configuration or its id.

    Raises:
        ValueError: the project is not given, or is not in the URL.
    """

    def __init__(
        self,
        *,
        base_url: AnyHttpUrl | str,
        config_url: AnyHttpUrl | str | None = None,
        project_id: str | None = None,
        descope_base_url: AnyHttpUrl | str | None = None,
        required_scopes: list[str] | None = None,
        token_verifier: TokenVerifier | None = None,
        **options: Any,
    ) -> None:
        if config_url is not None:
            issuer = str(config_url).removesuffix("/.well-known/openid-configuration")
            parts = urlsplit(issuer)
            path = parts.path.strip("/").split("/")
            if "agentic" not in path:
                raise ValueError(f"Could not find 'agentic' in config_url path: {issuer}")
            following = path[path.index("agentic") + 1 :]
            if not following:
                raise ValueError(f"Could not extract project_id from config_url: {issuer}")
            self.project_id, self.descope_base_url = following[0], f"{parts.scheme}://{parts.netloc}"
        elif project_id is not None and descope_base_url is not None:
            host = str(descope_base_url).rstrip("/")
            self.descope_base_url = host if host.startswith(("http://", "https://")) else f"https://{host}"
            self.project_id = project_id
            issuer = f"{self.descope_base_url}/v1/apps/{project_id}"
        else:
            raise ValueError("Either config_url (new API) or both project_id and descope_base_url must be provided")
        app = f"{self.descope_base_url}/v1/apps/{self.project_id}"
        super().__init__(
            service="Descope",
            metadata_url=f"{app}/.well-known/oauth-authorization-server",
            token_verifier=token_verifier
            or JWTVerifier(
                jwks_uri=f"{self.descope_base_url}/{self.project_id}/.well-known/jwks.json",
                issuer=issuer,
                algorithm="RS256",
                audience=self.project_id,
                required_scopes=parse_scopes(required_scopes),
            ),
            authorization_server=issuer,
            base_url=str(base_url).rstrip("/"),
            **options,
        )
