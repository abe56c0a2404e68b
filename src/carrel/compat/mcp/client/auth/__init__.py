"""OAuth 2.1 for clients, as credentials of ``httpx``."""

from carrel.compat.mcp.client.auth.context import PKCEParameters, TokenStorage
from carrel.compat.mcp.client.auth.exceptions import OAuthFlowError, OAuthRegistrationError, OAuthTokenError
from carrel.compat.mcp.client.auth.oauth2 import OAuthClientProvider

__all__ = [
    "OAuthClientProvider",
    "OAuthFlowError",
    "OAuthRegistrationError",
    "OAuthTokenError",
    "PKCEParameters",
    "TokenStorage",
]
