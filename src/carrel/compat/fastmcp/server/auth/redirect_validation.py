"""Redirect URIs of clients: patterns that an operator allows."""

from __future__ import annotations

from fnmatch import fnmatchcase
from urllib.parse import SplitResult, unquote, urlsplit

from pydantic import AnyUrl

__all__ = [
    "DEFAULT_LOCALHOST_PATTERNS",
    "UNSAFE_REDIRECT_URI_SCHEMES",
    "is_loopback_host",
    "matches_allowed_pattern",
    "validate_redirect_uri",
]

#: Schemes that a browser runs or opens, and that are never redirected to.
UNSAFE_REDIRECT_URI_SCHEMES = frozenset(("javascript", "data", "file", "vbscript"))
DEFAULT_LOCALHOST_PATTERNS = ["http://localhost:*", "http://127.0.0.1:*"]
PORTS = {"http": "80", "https": "443"}


def is_loopback_host(host: str | None) -> bool:
    """Return whether a host is this machine."""
    return (host or "").lower() in ("localhost", "127.0.0.1", "::1")


def _host_and_port(parts: SplitResult) -> tuple[str, str]:
    """Return host and port of a URI or a pattern, whose port may be ``*``."""
    netloc = parts.netloc.rpartition("@")[2].lower()
    if netloc.startswith("["):
        host, _, rest = netloc[1:].partition("]")
        return host, rest.removeprefix(":")
    host, _, port = netloc.partition(":")
    return host, port


def _fits_host(host: str, pattern: str) -> bool:
    if pattern.startswith("*."):
        return len(host) > len(pattern) - 1 and host.endswith(pattern[1:])
    return host == pattern


def _fits_path(path: str, pattern: str) -> bool:
    """Return whether a path fits. A pattern without a path fits every path; a path with dot segments fits none."""
    if any(segment in (".", "..") for form in (path, unquote(path)) for segment in form.split("/")):
        return False
    return pattern in ("", "/") or fnmatchcase(path or "/", pattern)


def matches_allowed_pattern(uri: str, pattern: str) -> bool:
    """Return whether a URI fits a pattern, in which ``*`` may be the port, the first part of the host, or in the path.

    A loopback host without a port fits every port (RFC 8252, section 7.3). A URI with a user fits no pattern.
    """
    try:
        given, allowed = urlsplit(uri), urlsplit(pattern)
    except ValueError:
        return False
    scheme = given.scheme.lower()
    if scheme in UNSAFE_REDIRECT_URI_SCHEMES or "@" in given.netloc or scheme != allowed.scheme.lower():
        return False
    (host, port), (host_pattern, port_pattern) = _host_and_port(given), _host_and_port(allowed)
    if not _fits_host(host, host_pattern):
        return False
    any_port = port_pattern == "*" or (not port_pattern and is_loopback_host(host_pattern))
    usual = PORTS.get(scheme, "80")
    if not any_port and (port or usual) != (port_pattern or usual):
        return False
    return _fits_path(given.path, allowed.path)


def validate_redirect_uri(redirect_uri: str | AnyUrl | None, allowed_patterns: list[str] | None) -> bool:
    """Return whether a redirect URI fits one of the patterns. Without patterns, every scheme but unsafe ones fits."""
    if redirect_uri is None:
        return True
    uri = str(redirect_uri)
    try:
        unsafe = urlsplit(uri).scheme.lower() in UNSAFE_REDIRECT_URI_SCHEMES
    except ValueError:
        return False
    if unsafe:
        return False
    return allowed_patterns is None or any(matches_allowed_pattern(uri, each) for each in allowed_patterns)
