"""Discovery of the authorization server and the resource identifier that access tokens for an MCP server need.

https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/authorization-server-discovery
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from carrel.errors import AuthorizationError
from carrel.security.client.authorization_server import AuthorizationServer, find_server, find_server_of_old
from carrel.security.client.challenges import Challenge
from carrel.security.client.protected_resource import ProtectedResource, check_discovered_url, find_resource
from carrel.security.fetch import Fetcher
from carrel.transports.client.transport import AuthorizationRejection

__all__ = ["AuthorizationTarget", "discover_target"]

#: Maximum number of authorization servers to try per metadata document.
MAX_ISSUERS = 5


class AuthorizationTarget(NamedTuple):
    """An authorization server, and the requirements of the protected MCP server on its tokens.

    ``resource`` is None if the revision has no resource indicators; ``bound`` is whether tokens must be bound to a key
    (DPoP), ``pkce_advertised`` whether the authorization server must advertise PKCE.
    """

    server: AuthorizationServer
    resource: str | None
    scopes_supported: tuple[str, ...] | None
    bound: bool
    pkce_advertised: bool


async def discover_target(
    rejection: AuthorizationRejection,
    challenge: Challenge | None,
    fetcher: Fetcher,
    *,
    registered_with: str | None,
    before: str | None,
) -> AuthorizationTarget:
    """Discover the authorization server for an MCP server that has rejected a request.

    ``challenge`` comes from the rejection. ``registered_with``, if given, is the only issuer that
    may be used; ``before`` is the issuer used last, which is preferred if the server still names it.

    Raises:
        AuthorizationError: discovery fails, or ``registered_with`` is not among the server's issuers.
    """
    revision = rejection.revision
    described, advertised = rules(revision)
    headers = {} if revision is None else {"mcp-protocol-version": revision}
    named = None if challenge is None else challenge.parameters.get("resource_metadata")
    asked = rejection.url.partition("#")[0].partition("?")[0]
    found = await find_resource(asked, named, fetcher, headers)
    if found is None:
        if described:
            raise AuthorizationError(
                f"{asked} requires an access token, but names no authorization server (it has no metadata)"
            )
        server = await find_server_of_old(asked, fetcher, headers)
        check_issuer(registered_with, [server.issuer], asked)
        return AuthorizationTarget(server, None, None, False, False)
    offered = choose(found, asked, registered_with, before)
    server = await first_that_answers(offered, found, fetcher, headers)
    bound = found.dpop_bound_access_tokens_required or (challenge is not None and challenge.scheme == "dpop")
    return AuthorizationTarget(server, found.resource, found.scopes_supported, bound, advertised)


def choose(found: ProtectedResource, url: str, registered_with: str | None, before: str | None) -> Sequence[str]:
    """Return the issuers to try, the previously used one first."""
    offered = list(found.authorization_servers[:MAX_ISSUERS])
    if not offered:
        raise AuthorizationError(f"{found.url} names no authorization server for {url}")
    if registered_with is not None:
        check_issuer(registered_with, offered, url)
        return [registered_with]
    return sorted(offered, key=lambda issuer: issuer != before)


async def first_that_answers(
    issuers: Sequence[str],
    found: ProtectedResource,
    fetcher: Fetcher,
    headers: Mapping[str, str],
) -> AuthorizationServer:
    """Return the first authorization server whose metadata can be fetched."""
    problems: list[str] = []
    for issuer in issuers:
        try:
            check_discovered_url(issuer, "authorization server", found_at=found.url, hosts=fetcher.hosts)
            return await find_server(issuer, fetcher, headers)
        except AuthorizationError as error:
            problems.append(str(error))
    raise AuthorizationError("; ".join(problems))


def check_issuer(registered_with: str | None, offered: Collection[str], url: str) -> None:
    """Check that the server names the issuer that a client is registered with.

    https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/client-registration#authorization-server-binding

    Raises:
        AuthorizationError: the server names other issuers.
    """
    if registered_with is not None and registered_with not in offered:
        raise AuthorizationError(
            f"{url} uses {', '.join(offered)[:300]}, and this client is registered with {registered_with}: its "
            "credentials are sent to no other authorization server"
        )


def rules(revision: str | None) -> tuple[bool, bool]:
    """Return whether a revision requires protected resource metadata, and whether PKCE has to be advertised.

    Without a handshake, a server may reject a request before it reads the revision, so a server without metadata may
    have an older revision.
    """
    from carrel.protocol.revisions import LATEST, REVISIONS

    known = LATEST if revision is None else REVISIONS.get(revision, LATEST)
    return known.resource_metadata and not known.stateless, known.pkce_advertised
