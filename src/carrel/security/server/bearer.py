"""Bearer tokens in HTTP: how a request carries one, and how one that may not come in is answered.

https://www.rfc-editor.org/rfc/rfc6750 (carried over into OAuth 2.1, sections 5.1 to 5.3)
https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#access-token-usage
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping
from time import monotonic, time
from typing import Any, TypedDict

from carrel.errors import MCPError
from carrel.log import Log
from carrel.protocol.principal import Caller, Challenge, Principal
from carrel.protocol.server import Batch, Call
from carrel.security.server.scopes import Rules, Scopes

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

#: The longest token that is looked at, in bytes.
MAX_TOKEN = 16 * 1024

#: Seconds between two lines in the log that say the same trouble goes on.
COMPLAINTS = 10.0

TOKEN = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/"
QUOTABLE = frozenset(map(chr, range(0x20, 0x7F))) - {'"', "\\"}


class InvalidToken(MCPError):
    """A token that is not good (any more). The message says why, in words that may leave the server."""


class MalformedRequest(MCPError):
    """A request that carries a token in a way that it must not."""


class Unverifiable(MCPError):
    """Whether a token is good could not be found out. The message is for the log."""


def read_token(header: bytes) -> str | None:
    """Return the token of an Authorization header; None if the header is of another scheme.

    Raises:
        MalformedRequest: it says Bearer, but what follows cannot be a token.
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
    """Say whether a query string tries to hand over a token."""
    from urllib.parse import parse_qsl  # requests of MCP have no query: who sends none does not load it

    return any(name.strip().lower() == "access_token" for name, _ in parse_qsl(query.decode("latin-1"), True))


def challenge(
    status: int,
    message: str,
    error: str | None = None,
    *,
    scopes: Iterable[str] = (),
    metadata: str | None = None,
) -> Challenge:
    """Return a refusal with a ``WWW-Authenticate`` header (RFC 6750, section 3; RFC 9728, section 5.1)."""
    parameters = {
        "error": error,
        "error_description": None if error is None else "".join(c if c in QUOTABLE else "'" for c in message),
        "scope": " ".join(sorted(scopes)) or None,
        "resource_metadata": metadata,
    }
    given = [f'{name}="{value}"' for name, value in parameters.items() if value is not None]
    value = "Bearer " + ", ".join(given or ['realm="mcp"'])
    return Challenge(status, message, [(b"www-authenticate", value.encode("latin-1"))])


class Options(TypedDict, total=False):
    """What every kind of authorization takes.

    ``scopes`` says what requests need (see ``carrel.security.server.scopes``), ``implies`` which scopes hold others.
    """

    scopes: Rules | None
    implies: Rules | None


class BearerAuthorization:
    """Lets requests in by the token they carry. What kind of token is up to ``verify``.

    Raises:
        ConfigError: a scope, or what it is for, makes no sense.
    """

    def __init__(self, scopes: Rules | None = None, implies: Rules | None = None) -> None:
        self.scopes = Scopes(scopes or {}, implies or {})
        self.clock: Clock = time
        """Seconds since the epoch."""
        self.monotonic: Clock = monotonic
        """Seconds that only go forward."""
        self._complained = float("-inf")

    async def verify(self, token: str) -> Principal:
        """Return who holds a token.

        Raises:
            InvalidToken: nobody does (any more).
            Unverifiable: it cannot be said right now.
        """
        raise InvalidToken("The access token is not valid")

    async def stop(self) -> None:
        """Let go of connections."""

    # What a transport asks

    def document(self, scope: MutableMapping[str, Any], path: str) -> bytes | Challenge | None:
        """Return the metadata document if that is what a request asks for; ``path`` is where the endpoint is."""
        return None

    def locate(self, scope: MutableMapping[str, Any], path: str) -> str | Challenge | None:
        """Return the URL of the metadata document, or why nobody can be let in at this address."""
        return None

    def check_audience(self, principal: Principal, scope: MutableMapping[str, Any], path: str) -> None:
        """Check that a token was issued for this server.

        Raises:
            InvalidToken: it was not.
        """

    async def identify(
        self, scope: MutableMapping[str, Any], headers: MutableMapping[bytes, bytes], path: str
    ) -> Caller | Challenge:
        """Find out who sent a request, and take the token out of ``headers``: nothing behind this sees it."""
        header = headers.pop(b"authorization", None)
        metadata = self.locate(scope, path)
        if isinstance(metadata, Challenge):
            return metadata
        try:
            query = scope.get("query_string")
            if query and carries_token(query):
                raise MalformedRequest("A token must not be in the URL; it belongs into the Authorization header")
            token = None if header is None else read_token(header)
            if token is None:
                return challenge(
                    401, "This server wants an access token", scopes=self.scopes.everywhere, metadata=metadata
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
            return Challenge(503, "Access tokens cannot be verified at the moment", [(b"retry-after", b"10")])
        caller = Caller(principal, metadata)
        if not self.scopes.everywhere <= principal.scopes:
            return self._ask_for(self.scopes.everywhere, caller)
        return caller

    def _complain(self, error: Unverifiable) -> None:
        """Log that nobody can be let in, but not with every request."""
        now = self.monotonic()
        if now >= self._complained + COMPLAINTS:
            self._complained = now
            log.error("access tokens cannot be verified: %s", error)

    def permit(self, caller: Caller, event: Call | Batch) -> Challenge | None:
        """Return what lacks for a call, or for all calls of a batch at once; None if nothing does."""
        calls = [event] if isinstance(event, Call) else [one for one in event.events if isinstance(one, Call)]
        needed = self.scopes.everywhere.union(*map(self.scopes.needed, calls))
        if needed <= caller.principal.scopes:
            return None
        return self._ask_for(needed, caller)

    def _ask_for(self, needed: frozenset[str], caller: Caller) -> Challenge:
        """Ask for all that is needed at once, along with what is there already: some clients replace, not add.

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
