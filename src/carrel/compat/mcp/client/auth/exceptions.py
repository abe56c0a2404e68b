"""Errors of authorization."""

from __future__ import annotations

__all__ = ["OAuthFlowError", "OAuthRegistrationError", "OAuthTokenError"]


class OAuthFlowError(Exception):
    """Authorization failed."""


def flow_error(error: Exception) -> OAuthFlowError | None:
    """Return the error of a flow that made a request fail; None if something else did."""
    return error.__cause__ if isinstance(error.__cause__, OAuthFlowError) else None


class OAuthTokenError(OAuthFlowError):
    """A token request failed."""


class OAuthRegistrationError(OAuthFlowError):
    """The registration of the client failed."""
