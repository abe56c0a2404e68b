"""Logging: middleware that logs requests and their outcome."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

import msgspec

from carrel.catalog.request import InputRequired
from carrel.log import Log
from carrel.printable import printable_json
from carrel.server.middleware.middleware import Middleware, Next, target_of

if TYPE_CHECKING:
    from carrel.protocol.server import Call
    from carrel.wire.base import Result

__all__ = ["Logging"]


class Logging(Middleware):
    """Middleware that logs each request with its outcome, duration and caller, after it was handled.

    ``logger`` is the name of the logger, ``level`` the level for requests that succeed; failed requests are warnings.
    With ``params``, the parameters are logged too, shortened to ``max_length`` characters: they may contain secrets.
    With ``as_json``, a record is one JSON object, for log collectors.
    """

    def __init__(
        self,
        logger: str = "carrel.requests",
        *,
        level: int = logging.INFO,
        params: bool = False,
        max_length: int = 1000,
        as_json: bool = False,
    ) -> None:
        self._log = Log(logger, 64 * max_length + 4000)  # JSON must not be shortened
        self._level = level
        self._params = params
        self._max_length = max_length
        self._as_json = as_json

    async def on_request(self, call: Call, next: Next) -> Result:
        """Log a request."""
        started, outcome, level = time.perf_counter(), "cancelled", self._level
        try:
            result = await next(call)
            outcome = "tool error" if getattr(result, "is_error", None) is True else "ok"
            return result
        except InputRequired:
            outcome = "input required"
            raise
        except Exception as error:
            outcome, level = type(error).__name__, logging.WARNING
            raise
        finally:
            self._write(call, outcome, level, time.perf_counter() - started)

    def _write(self, call: Call, outcome: str, level: int, seconds: float) -> None:
        client = call.peer.client
        about = {
            "method": call.method,
            "target": target_of(call)[: self._max_length],
            "id": str(call.id)[: self._max_length],
            "outcome": outcome,
            "ms": round(seconds * 1000, 1),
            "client": "" if client is None else client.name[: self._max_length],
            "caller": "" if call.principal is None else call.principal.id,
        }
        if self._params:
            about["params"] = bytes(call.raw).decode("utf-8", "replace")[: self._max_length]
        if self._as_json:
            self._log.log(level, "%s", printable_json(msgspec.json.encode(about).decode()))
        else:
            for name in ("target", "id", "client", "caller"):
                about[name] = _quoted(str(about[name]))
            parts = (f"{name}={value}" for name, value in about.items() if value != "" and name != "method")
            self._log.log(level, "%s %s", call.method, " ".join(parts))


def _quoted(text: str) -> str:
    """Return a text of a caller as JSON if it could be taken for other fields of the record."""
    return msgspec.json.encode(text).decode() if any(mark in text for mark in ' "=') else text
