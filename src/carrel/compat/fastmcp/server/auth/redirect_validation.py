"""Redirect URIs of clients: patterns that an operator allows."""

from __future__ import annotations

from fnmatch import fnmatchcase
from urllib.parse import SplitResult, unquote, urlencode, urlsplit

from pydantic import AnyUrl

__all__ = [
    "DEFAULT_LOCALHOST_PATTERNS",
    "UNSAFE_REDIRECT_URI_SCHEMES",
    "add_query_params",
    "build_client_redirect",
    "is_loopback_host",
    "is_redirect_uri_allowed_for_application_type",
    "matches_allowed_pattern",
    "replace_query_param",
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


def is_redirect_uri_allowed_for_application_type(redirect_uri: str | AnyUrl, application_type: str | None) -> bool:
    """Return whether a client may register a redirect URI (RFC 7591, section 2).

    A "web" client has https URIs of other machines. Other clients have no http URIs of other machines.
    """
    try:
        parts = urlsplit(str(redirect_uri))
    except ValueError:
        return False
    scheme = parts.scheme.lower()
    if scheme in UNSAFE_REDIRECT_URI_SCHEMES:
        return False
    if application_type == "web":
        return scheme == "https" and not is_loopback_host(parts.hostname)
    return scheme != "http" or is_loopback_host(parts.hostname)


def add_query_params(url: str, params: dict[str, str]) -> str:
    """Return a URL with more parameters. The query that it has stays as it is written."""
    parts = urlsplit(url)
    return parts._replace(query="&".join(filter(None, (parts.query, urlencode(params))))).geturl()


def replace_query_param(url: str, key: str, value: str) -> str:
    """Return a URL whose first parameter of a name is replaced, or that has it in addition."""
    parts = urlsplit(url)
    pairs = parts.query.split("&") if parts.query else []
    place = next((index for index, pair in enumerate(pairs) if unquote(pair.partition("=")[0]) == key), len(pairs))
    pairs[place : place + 1] = [urlencode({key: value})]
    return parts._replace(query="&".join(pairs)).geturl()


def build_client_redirect(url: str, params: dict[str, str], *, iss: str) -> str:
    """Return the URL to redirect a client to, with one issuer (RFC 9207).

    Raises:
        ValueError: the parameters have an issuer too.
    """
    if "iss" in params:
        raise ValueError("pass the issuer as iss=, not in params")
    return replace_query_param(add_query_params(url, params), "iss", iss)
