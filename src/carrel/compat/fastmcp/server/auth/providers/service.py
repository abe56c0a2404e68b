"""OAuth proxies of services whose endpoints are known."""

from __future__ import annotations

from typing import Any

from pydantic import AnyHttpUrl

from carrel.compat.fastmcp.server.auth.auth import TokenVerifier
from carrel.compat.fastmcp.server.auth.oauth_proxy.proxy import OAuthProxy

__all__ = ["ServiceProxy"]


class ServiceProxy(OAuthProxy):
    """OAuth proxy in front of a service: its login and token endpoints, and a verifier of its tokens."""

    def __init__(
        self,
        login: str,
        tokens: str,
        verifier: TokenVerifier,
        *,
        client_id: str,
        client_secret: str | None,
        base_url: AnyHttpUrl | str,
        issuer_url: AnyHttpUrl | str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(
            upstream_authorization_endpoint=login,
            upstream_token_endpoint=tokens,
            upstream_client_id=client_id,
            upstream_client_secret=client_secret,
            token_verifier=verifier,
            base_url=base_url,
            issuer_url=issuer_url or base_url,
            **options,
        )
