"""Bearer token authorization of HTTP requests: Authorization header and WWW-Authenticate challenges.

https://www.rfc-editor.org/rfc/rfc6750 (carried over into OAuth 2.1, sections 5.1 to 5.3)
https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#access-token-usage
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping, Sequence
from time import monotonic, time
from typing import TYPE_CHECKING, Any, TypedDict

from carrel.errors import MCPError
from carrel.log import Log
from carrel.protocol.principal import AuthenticatedCaller, HTTPErrorResponse, Principal
from carrel.protocol.server import Call, ClientBatch
from carrel.security.server.scopes import Rules, Scopes

if TYPE_CHECKING:
    from carrel.transports.server.route import Route

__all__ = [
    "BearerAuthorization",
    "Clock",
    "InvalidToken",
    "MalformedRequest",
    "Unverifiable",
    "challenge",
    "read_token",
]

log = Log("carrel.security")
Clock = Callable[[], float]

#: Maximum length of a token, in bytes.
MAX_TOKEN = 16 * 1024

#: Seconds between two log lines about tokens that cannot be verified.
COMPLAINTS = 10.0

TOKEN = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/"
QUOTABLE = frozenset(map(chr, range(0x20, 0x7F))) - {'"', "\\"}


class InvalidToken(MCPError):
    """The token is not valid, or no longer valid. The message is safe to send to the client."""


class MalformedRequest(MCPError):
    """The request contains its token in a way that is not allowed."""


class Unverifiable(MCPError):
    """A token cannot be verified, as the issuer is unreachable or responds incorrectly. The message is for the log."""


def read_token(header: bytes) -> str | None:
    """Return the bearer token in an Authorization header, or None if the header has another scheme.

    Raises:
        MalformedRequest: the scheme is Bearer, but no valid token follows.
    """
    scheme, _, rest = header.strip(b" \t").partition(b" ")
    if scheme.lower() != b"bearer":
        return None
    token = rest.strip(b" ")
    if not token:
        raise MalformedRequest("The Authorization header says Bearer, but no token follows")
    if len(token) > MAX_TOKEN:
        raise MalformedRequest(f"The token is too long: at most {MAX_TOKEN} bytes")
    characters = token.rstrip(b"=")
    if not characters or characters.translate(None, TOKEN):
        raise MalformedRequest("The Authorization header holds characters that no bearer token has")
    return token.decode("ascii")


def carries_token(query: bytes) -> bool:
    """Return whether a query string has an ``access_token`` parameter."""
    from urllib.parse import parse_qsl  # late: MCP requests usually have no query

    return any(name.strip().lower() == "access_token" for name, _ in parse_qsl(query.decode("latin-1"), True))


def challenge(
    status: int,
    message: str,
    error: str | None = None,
    *,
    scopes: Iterable[str] = (),
    metadata: str | None = None,
) -> HTTPErrorResponse:
    """Return an error response with a ``WWW-Authenticate`` header (RFC 6750, section 3; RFC 9728, section 5.1)."""
    parameters = {
        "error": error,
        "error_description": None if error is None else "".join(c if c in QUOTABLE else "'" for c in message),
        "scope": " ".join(sorted(scopes)) or None,
        "resource_metadata": metadata,
    }
    given = [f'{name}="{value}"' for name, value in parameters.items() if value is not None]
    value = "Bearer " + ", ".join(given or ['realm="mcp"'])
    return HTTPErrorResponse(status, message, [(b"www-authenticate", value.encode("latin-1"))])


class Options(TypedDict, total=False):
    """Options of all bearer token authorization.

    ``scopes`` maps requests to scopes (see ``carrel.security.server.scopes``), ``implies`` scopes to those included.
    """

    scopes: Rules | None
    implies: Rules | None


class BearerAuthorization:
    """Base class for authorization of requests by bearer token. Subclasses verify tokens in ``verify``.

    Raises:
        ConfigError: a scope or its rule is invalid.
    """

    def __init__(self, scopes: Rules | None = None, implies: Rules | None = None) -> None:
        self.scopes = Scopes(scopes or {}, implies or {})
        self.clock: Clock = time
        """Seconds since the epoch."""
        self.monotonic: Clock = monotonic
        """Monotonic clock, in seconds."""
        self._complained = float("-inf")

    async def verify(self, token: str) -> Principal:
        """Return the principal of a token.

        Raises:
            InvalidToken: the token is not valid, or no longer valid.
            Unverifiable: the token cannot be verified at the moment.
        """
        raise InvalidToken("The access token is not valid")

    async def stop(self) -> None:
        """Close connections."""

    # Interface for transports

    def document(self, scope: MutableMapping[str, Any], path: str) -> bytes | HTTPErrorResponse | None:
        """Return the protected resource metadata if a request is for it; ``path`` is the path of the MCP endpoint."""
        return None

    def routes(self, path: str) -> Sequence[Route]:
        """Return additional routes, next to the MCP endpoint at ``path``. By default, there are no routes."""
        return ()

    def locate(self, scope: MutableMapping[str, Any], path: str) -> str | HTTPErrorResponse | None:
        """Return the URL of the metadata document, or an error response if the server's own URL is unknown."""
        return None

    def check_audience(self, principal: Principal, scope: MutableMapping[str, Any], path: str) -> None:
        """Check that a token was issued for this server.

        Raises:
            InvalidToken: the token was issued for another server.
        """

    async def identify(
        self, scope: MutableMapping[str, Any], headers: MutableMapping[bytes, bytes], path: str
    ) -> AuthenticatedCaller | HTTPErrorResponse:
        """Authenticate a request, and remove the token from ``headers`` so that no later code sees it."""
        header = headers.pop(b"authorization", None)
        metadata = self.locate(scope, path)
        if isinstance(metadata, HTTPErrorResponse):
            return metadata
        try:
            query = scope.get("query_string")
            if query and carries_token(query):
                raise MalformedRequest("A token must not be in the URL; send it in the Authorization header")
            token = None if header is None else read_token(header)
            if token is None:
                return challenge(
                    401, "This server requires an access token", scopes=self.scopes.everywhere, metadata=metadata
                )
            principal = await self.verify(token)
            self.check_audience(principal, scope, path)
        except MalformedRequest as error:
            return challenge(400, str(error), "invalid_request", metadata=metadata)
        except InvalidToken as error:
            log.info("a token was refused: %s", error)
            return challenge(401, str(error), "invalid_token", scopes=self.scopes.everywhere, metadata=metadata)
        except Unverifiable as error:
            self._complain(error)
            return HTTPErrorResponse(503, "Access tokens cannot be verified at the moment", [(b"retry-after", b"10")])
        caller = AuthenticatedCaller(principal, metadata)
        if not self.scopes.everywhere <= principal.scopes:
            return self._ask_for(self.scopes.everywhere, caller)
        return caller

    def _complain(self, error: Unverifiable) -> None:
        """Log that tokens cannot be verified, at most once in ``COMPLAINTS`` seconds."""
        now = self.monotonic()
        if now >= self._complained + COMPLAINTS:
            self._complained = now
            log.error("access tokens cannot be verified: %s", error)

    def permit(self, caller: AuthenticatedCaller, event: Call | ClientBatch) -> HTTPErrorResponse | None:
        """Return the insufficient scope challenge for a call, or for all calls of a batch; None if permitted."""
        calls = [event] if isinstance(event, Call) else [one for one in event.events if isinstance(one, Call)]
        needed = self.scopes.everywhere.union(*map(self.scopes.needed, calls))
        if needed <= caller.principal.scopes:
            return None
        return self._ask_for(needed, caller)

    def _ask_for(self, needed: frozenset[str], caller: AuthenticatedCaller) -> HTTPErrorResponse:
        """Return a challenge with the needed scopes and the granted scopes, as some clients replace their scopes.

        https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization#runtime-insufficient-scope-errors
        """
        granted = caller.principal.scopes
        missing = ", ".join(sorted(needed - granted))
        return challenge(
            403,
            f"The access token lacks a scope that this takes: {missing}",
            "insufficient_scope",
            scopes=needed | (granted & self.scopes.known),
            metadata=caller.metadata,
        )
