"""Resource indicators (RFC 8707) and the expiry of tokens."""

from __future__ import annotations

import time
from urllib.parse import urlsplit, urlunsplit

from pydantic import AnyUrl, HttpUrl

__all__ = ["calculate_token_expiry", "check_resource_allowed", "resource_url_from_server_url"]


def resource_url_from_server_url(url: str | HttpUrl | AnyUrl) -> str:
    """Return the resource indicator of a server: its URL without fragment, scheme and host in lower case."""
    parts = urlsplit(str(url))
    return urlunsplit(parts._replace(scheme=parts.scheme.lower(), netloc=parts.netloc.lower(), fragment=""))


def check_resource_allowed(requested_resource: str, configured_resource: str) -> bool:
    """Return whether a resource is the configured one, or below its path at the same origin."""
    requested, configured = urlsplit(requested_resource), urlsplit(configured_resource)
    if (requested.scheme.lower(), requested.netloc.lower()) != (configured.scheme.lower(), configured.netloc.lower()):
        return False
    return f"{requested.path.rstrip('/')}/".startswith(f"{configured.path.rstrip('/')}/")


def calculate_token_expiry(expires_in: int | str | None) -> float | None:
    """Return when a token expires, in seconds since the epoch, or None if that is unknown."""
    return None if expires_in is None else time.time() + int(expires_in)
