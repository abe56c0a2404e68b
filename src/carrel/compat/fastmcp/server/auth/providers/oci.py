"""Login with Oracle Cloud."""

from __future__ import annotations

from typing import Any

from carrel.compat.fastmcp.server.auth.oidc_proxy import OIDCProxy
from carrel.compat.fastmcp.utilities.auth import parse_scopes

__all__ = ["OCIProvider"]


class OCIProvider(OIDCProxy):
    """OAuth proxy in front of Oracle Cloud."""

    def __init__(self, *, required_scopes: list[str] | None = None, **options: Any) -> None:
        scopes = ["openid"] if required_scopes is None else parse_scopes(required_scopes)
        super().__init__(required_scopes=scopes, **options)

    def _prepare_scopes_for_token_exchange(self, scopes: list[str]) -> list[str]:
        return []
