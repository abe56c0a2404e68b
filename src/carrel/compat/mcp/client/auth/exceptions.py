"""Errors of authorization."""

from __future__ import annotations

__all__ = ["OAuthFlowError", "OAuthRegistrationError", "OAuthTokenError"]


class OAuthFlowError(Exception):
    """Authorization failed."""


class OAuthTokenError(OAuthFlowError):
    """A token request failed."""


class OAuthRegistrationError(OAuthFlowError):
    """The registration of the client failed."""
