"""OAuth 2.1 resource server: audience checks, claims and protected resource metadata.

https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any, Unpack

import msgspec

from carrel.errors import ConfigError
from carrel.protocol.principal import HTTPErrorResponse, Principal
from carrel.security.discovery import check_issuer
from carrel.security.fetch import require_libraries
from carrel.security.server.bearer import BearerAuthorization, InvalidToken, Options
from carrel.security.server.metadata import (
    canonical,
    check_resource,
    describe,
    endpoint_path,
    local_resource,
    metadata_url,
)
from carrel.security.server.token_cache import TokenCache

__all__ = ["ResourceServer", "ResourceServerOptions"]

#: Default tolerance for clock differences, in seconds.
LEEWAY = 10.0

#: Maximum number of cached loopback resource URIs.
MAX_RESOURCES = 64


class ResourceServerOptions(Options, total=False):
    """Options of all resource servers.

    Args:
        resource: the URL that clients use, such as "https://mcp.example.org/mcp". Without it, the server accepts only
            requests to a loopback host.
        audience: the audience of tokens for this server, if not its URL.
        leeway: maximum difference between the issuer's clock and this machine's clock, in seconds.
        remember: seconds for which a verified token is cached.
        name: the name of the server in its metadata.
        documentation: the URL of a page for developers of clients.
    """

    resource: str | None
    audience: str | Iterable[str] | None
    leeway: float
    remember: float
    name: str | None
    documentation: str | None


class ResourceServer(BearerAuthorization):
    """Base class for resource servers, whose tokens are issued by an authorization server.

    Without issuers there is no metadata document, as there is nowhere to get a token.
    """

    def __init__(
        self,
        issuers: Iterable[str],
        *,
        resource: str | None = None,
        audience: str | Iterable[str] | None = None,
        leeway: float = LEEWAY,
        remember: float = 60.0,
        name: str | None = None,
        documentation: str | None = None,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(**options)
        self.issuers = tuple(map(check_issuer, issuers))
        if self.issuers:
            require_libraries()
        if not 0 <= leeway <= 300:
            raise ConfigError(f"leeway must be 0 to 300 seconds, not {leeway}")
        if not 0 <= remember <= 3600:
            raise ConfigError(f"remember must be 0 to 3600 seconds, not {remember}")
        audiences = [audience] if isinstance(audience, str) else list(audience or ())
        if audience is not None and not all(audiences or [""]):
            raise ConfigError("audience must not be empty")
        if resource is None and audiences and audiences[0].startswith(("https://", "http://")):
            resource = audiences[0]
        self.resource = None if resource is None else check_resource(resource)
        self.leeway = leeway
        self.remembered = TokenCache(remember, leeway, lambda: self.monotonic())
        self._audience = frozenset(map(canonical, audiences))
        self._resources: dict[tuple[Any, ...], str] = {}
        self._name = name
        self._documentation = documentation

    def document(self, scope: MutableMapping[str, Any], path: str) -> bytes | HTTPErrorResponse | None:
        """Return the protected resource metadata if a request is for it."""
        endpoint = endpoint_path(scope, path, self.resource) if self.issuers else None
        if endpoint is None:
            return None
        resource = self.resource or local_resource({**scope, "root_path": ""}, endpoint)
        if resource is None:
            return misdirected()
        return describe(resource, self.issuers, self.scopes.basic, self._name, self._documentation)

    def locate(self, scope: MutableMapping[str, Any], path: str) -> str | HTTPErrorResponse | None:
        """Return the URL of the metadata document, or an error response if the server's own URL is unknown."""
        if not self.issuers:
            return None
        resource = self._resource(scope, path)
        if resource is None:
            return misdirected()
        return metadata_url(resource, mounted=bool(scope.get("root_path")))

    def _resource(self, scope: Mapping[str, Any], path: str) -> str | None:
        if self.resource is not None:
            return self.resource
        host = next((value for name, value in scope["headers"] if name == b"host"), b"")
        key = (host, path, scope.get("root_path"), scope.get("server"), scope.get("scheme"))
        found = self._resources.get(key)
        if found is None:
            found = local_resource(scope, path)
            if found is not None and len(self._resources) < MAX_RESOURCES:
                self._resources[key] = found
        return found

    def check_audience(self, principal: Principal, scope: MutableMapping[str, Any], path: str) -> None:
        """Check that a token was issued for this server.

        https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#token-handling

        Raises:
            InvalidToken: the token was issued for another server.
        """
        wanted = self._audience or {self._resource(scope, path)}
        if principal.audience.isdisjoint(wanted):
            raise InvalidToken(f"The access token was not issued for {' or '.join(map(str, sorted(wanted, key=str)))}")

    def complete(self, found: Principal) -> Principal:
        """Return a principal from a custom verifier, with its implied scopes and their view.

        Raises:
            InvalidToken: the principal has no subject, or its token has expired.
        """
        if not found.subject:
            raise InvalidToken("The access token has no subject")
        if found.expires is not None and self.clock() >= found.expires + self.leeway:
            raise InvalidToken("The access token has expired")
        scopes = self.scopes.expand(found.scopes)
        return msgspec.structs.replace(
            found, scopes=scopes, audience=frozenset(map(canonical, found.audience)), view=self.scopes.view(scopes)
        )

    def principal(self, claims: Mapping[str, Any]) -> Principal:
        """Return the principal of verified claims, after checking their lifetime (``exp``, ``nbf``).

        JWT claims (RFC 9068) and introspection responses (RFC 7662) have the same names.

        Raises:
            InvalidToken: a claim is missing or invalid, or the token has expired or is not valid yet.
        """
        now = self.clock()
        expires, begins = _time(claims, "exp"), _time(claims, "nbf")
        if expires is not None and now >= expires + self.leeway:
            raise InvalidToken("The access token has expired")
        if begins is not None and now < begins - self.leeway:
            raise InvalidToken("The access token is not valid yet")
        client = claims.get("client_id", claims.get("azp"))
        subject = claims.get("sub") or client
        if not isinstance(subject, str) or not subject:
            raise InvalidToken("The access token has no subject")
        issuer = claims.get("iss", "")
        scopes = self.scopes.expand(_words(claims.get("scope", claims.get("scp", ()))))
        token_id = claims.get("jti")
        return Principal(
            subject=subject,
            issuer=issuer if isinstance(issuer, str) else "",
            client=client if isinstance(client, str) else None,
            scopes=scopes,
            audience=frozenset(map(canonical, _list(claims.get("aud", ())))),
            expires=expires,
            token_id=token_id if isinstance(token_id, str) else None,
            claims=claims,
            view=self.scopes.view(scopes),
        )


def misdirected() -> HTTPErrorResponse:
    """Return a 421 response for a request whose host may not be this server."""
    message = (
        "This server refuses requests at this address, because it does not know the URL that clients use. "
        "Its operator has to configure it: resource='https://…'"
    )
    return HTTPErrorResponse(421, message, [])


def _time(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if type(value) not in (int, float) or not abs(value) < 1e12:
        raise InvalidToken(f"The claim {name} of the access token is not a time")
    return float(value)


def _list(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else [item for item in _items(value) if isinstance(item, str)]


def _words(value: Any) -> list[str]:
    return value.split(" ") if isinstance(value, str) else _list(value)


def _items(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list | tuple) else ()


def read_object(data: bytes) -> dict[str, Any]:
    """Decode a JSON object of a JWT.

    Raises:
        InvalidToken: the data is not a JSON object.
    """
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InvalidToken("The access token is not a JWT") from None
