"""Verification of access tokens with a custom function, such as a database lookup."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from carrel.awaitables import resolved
from carrel.errors import ConfigError
from carrel.log import Log
from carrel.protocol.principal import Principal
from carrel.security.server.bearer import InvalidToken, Unverifiable

__all__ = ["TokenVerifier", "Verifier"]

log = Log("carrel.security")

#: Result of a verifier: a principal, claims as in a JWT or an introspection response, or None for an invalid token.
Verified = Principal | Mapping[str, Any] | None
Verifier = Callable[[str], Verified | Awaitable[Verified]]

#: Timeout of a verifier, in seconds.
TIMEOUT = 10.0
#: Maximum number of concurrent verifications; further tokens wait.
CONCURRENT = 64


class TokenVerifier:
    """Calls a verifier, with limits on time and concurrency. A function that is not asynchronous runs in a thread.

    Raises:
        ConfigError: the verifier cannot be called with a token.
    """

    def __init__(self, verify: Verifier) -> None:
        if not callable(verify):
            raise ConfigError(f"verify must be a function of a token, not {verify!r}")
        try:
            inspect.signature(verify).bind("token")
        except TypeError:
            raise ConfigError("verify must be a function that can be called with one argument, the token") from None
        except ValueError:
            pass  # the signature is unknown
        self._verify = verify
        self._is_async = inspect.iscoroutinefunction(verify) or inspect.iscoroutinefunction(
            getattr(verify, "__call__", None)  # noqa: B004
        )
        self._slots = asyncio.Semaphore(CONCURRENT)

    async def verify(self, token: str) -> Principal | Mapping[str, Any]:
        """Return the verifier's result for a token.

        Raises:
            InvalidToken: the token is not valid.
            Unverifiable: the verifier raised an exception, took too long, or returned something else.
        """
        try:
            async with asyncio.timeout(TIMEOUT), self._slots:
                found = self._verify(token) if self._is_async else await asyncio.to_thread(self._verify, token)
                found = await resolved(found)
        except (InvalidToken, Unverifiable):
            raise
        except TimeoutError:
            raise Unverifiable(f"the verifier took more than {TIMEOUT:g} seconds") from None
        except Exception as error:
            log.exception("the verifier of access tokens failed")
            raise Unverifiable(f"the verifier raised {type(error).__name__}") from None
        if found is None:
            raise InvalidToken("The access token is not valid")
        if not isinstance(found, Principal | Mapping):
            raise Unverifiable(f"the verifier returned {type(found).__name__}, not a Principal, claims or None")
        return found
