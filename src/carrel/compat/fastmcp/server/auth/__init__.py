"""Authorization of servers: token verifiers, authorization servers, and checks of components."""

from typing import TYPE_CHECKING

from carrel.compat.lazy import lazily

NAMES = {
    **dict.fromkeys(
        ("AccessToken", "AuthProvider", "MultiAuth", "OAuthProvider", "RemoteAuthProvider", "TokenVerifier"), "auth"
    ),
    **dict.fromkeys(
        ("AuthCheck", "AuthContext", "require_roles", "require_scopes", "restrict_tag", "run_auth_checks"),
        "authorization",
    ),
    "DebugTokenVerifier": "providers.debug",
    "JWTVerifier": "providers.jwt",
    "OAuthProxy": "oauth_proxy",
    "OIDCProxy": "oidc_proxy",
    "StaticTokenVerifier": "providers.jwt",
}

__all__ = sorted(NAMES)

if not TYPE_CHECKING:
    __getattr__ = lazily(__name__, NAMES)
