"""OAuth 2.1 for clients, as credentials of ``httpx``."""

from carrel.compat.mcp.client.auth.context import PKCEParameters, TokenStorage
from carrel.compat.mcp.client.auth.exceptions import OAuthFlowError, OAuthRegistrationError, OAuthTokenError
from carrel.compat.mcp.client.auth.oauth2 import OAuthClientProvider
from carrel.compat.mcp.shared.auth import AuthorizationCodeResult

__all__ = [
    "AuthorizationCodeResult",
    "OAuthClientProvider",
    "OAuthFlowError",
    "OAuthRegistrationError",
    "OAuthTokenError",
    "PKCEParameters",
    "TokenStorage",
]
