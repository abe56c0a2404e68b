"""Login with Auth0."""

from __future__ import annotations

from typing import Any

from carrel.compat.fastmcp.server.auth.oidc_proxy import OIDCProxy
from carrel.compat.fastmcp.utilities.auth import parse_scopes

__all__ = ["Auth0Provider"]


class Auth0Provider(OIDCProxy):
    """OAuth proxy in front of Auth0."""

    def __init__(self, *, required_scopes: list[str] | None = None, **options: Any) -> None:
        scopes = ["openid"] if required_scopes is None else parse_scopes(required_scopes)
        super().__init__(required_scopes=scopes, **options)
