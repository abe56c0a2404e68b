"""Protected resource metadata of a server (RFC 9728), and its canonical resource identifier (RFC 8707).

https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#canonical-server-uri
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from carrel.errors import ConfigError
from carrel.security.fetch import check_url
from carrel.transports.addresses import is_loopback

__all__ = ["WELL_KNOWN", "canonical", "check_resource", "describe", "endpoint_path", "local_resource", "metadata_url"]

WELL_KNOWN = "/.well-known/oauth-protected-resource"


def canonical(uri: str) -> str:
    """Return the canonical form of a server URI; text that is not a URI is returned unchanged."""
    scheme, mark, rest = uri.partition("://")
    if not mark:
        return uri
    scheme = scheme.lower()
    authority, slash, path = rest.partition("/")
    authority = authority.lower().removesuffix({"https": ":443", "http": ":80"}.get(scheme, ":"))
    return f"{scheme}://{authority}{slash}{path}".rstrip("/")


def check_resource(uri: str) -> str:
    """Return the canonical form of a resource identifier after checking it.

    Raises:
        ConfigError: the text is not a valid resource identifier.
    """
    if "?" in check_url(uri, "resource"):
        raise ConfigError(f"resource: {uri!r} must not have a query")
    return canonical(uri)


def local_resource(scope: Mapping[str, Any], path: str) -> str | None:
    """Return the resource URI of a server requested under a loopback host name; None for any other host.

    The Host header is trusted only if it names this machine and the port that received the request. Otherwise a token
    for another server would be accepted.
    """
    host = next((value for name, value in scope["headers"] if name == b"host"), b"").decode("latin-1")
    scheme = scope.get("scheme", "http")
    server = scope.get("server")
    try:
        parts = urlsplit(f"{scheme}://{host}")
        name, port = parts.hostname, parts.port or (443 if scheme == "https" else 80)
    except ValueError:
        return None
    if name is None or not is_loopback(name) or not server or port != server[1] or "@" in host or "/" in host:
        return None
    return canonical(f"{scheme}://{host}{scope.get('root_path', '')}{path}")


def metadata_url(resource: str, *, mounted: bool) -> str:
    """Return the URL of a server's metadata document.

    This is the well-known URL, unless the server is mounted within another application, which owns the well-known path.
    The ``WWW-Authenticate`` header of error responses contains the URL.
    """
    if mounted:
        return resource + WELL_KNOWN
    scheme, _, rest = resource.partition("://")
    authority, slash, path = rest.partition("/")
    return f"{scheme}://{authority}{WELL_KNOWN}{slash}{path}"


def endpoint_path(scope: Mapping[str, Any], path: str, resource: str | None) -> str | None:
    """Return the path of the endpoint whose metadata is requested, or None if this is another request."""
    whole: str = scope["path"]
    root: str = scope.get("root_path", "")
    inner = whole[len(root) :] if root and whole.startswith(root) else whole
    path = path.rstrip("/")
    if root.startswith(WELL_KNOWN):  # also mounted at the well-known path by the outer application
        return (root + inner)[len(WELL_KNOWN) :].rstrip("/")
    known = {"", path, "" if resource is None else urlsplit(resource).path}
    if inner.startswith(WELL_KNOWN) and inner[len(WELL_KNOWN) :].rstrip("/") in known:
        return root + path
    if inner == path + WELL_KNOWN:
        return root + path
    return None


def describe(
    resource: str, issuers: Iterable[str], scopes: Iterable[str], name: str | None, documentation: str | None
) -> bytes:
    """Return the protected resource metadata document as JSON (RFC 9728, section 2)."""
    document: dict[str, Any] = {
        "resource": resource,
        "authorization_servers": list(issuers),
        "scopes_supported": sorted(scopes),
        "bearer_methods_supported": ["header"],
        "resource_name": name,
        "resource_documentation": documentation,
    }
    return msgspec.json.encode({key: value for key, value in document.items() if value})
