"""Authentication of clients: bearer tokens, OAuth in a browser, and client credentials."""

from typing import TYPE_CHECKING

from carrel.compat.lazy import lazily

NAMES = {
    "BearerAuth": "bearer",
    "ClientCredentialsOAuthProvider": "client_credentials",
    "OAuth": "oauth",
    "PrivateKeyJWTOAuthProvider": "client_credentials",
    "SignedJWTParameters": "client_credentials",
    "static_assertion_provider": "client_credentials",
}

__all__ = sorted(NAMES)

if not TYPE_CHECKING:
    __getattr__ = lazily(__name__, NAMES)
