"""Recorded sessions: the writer of a recording, and the lookup of recorded responses to requests."""

from __future__ import annotations

import os
import stat
import threading
import time
from pathlib import Path
from typing import IO, Any, Literal

import msgspec

from carrel.errors import INVALID_PARAMS, METHOD_NOT_FOUND, ConfigError
from carrel.recordings import RecordedLine, message_in, read_recording, recorded_message

__all__ = ["Recorder", "Recording"]

#: Methods whose recorded response is returned for any parameters: they open or check a session.
OPENING = ("initialize", "server/discover", "ping", "logging/setLevel")
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


class Recorder:
    """Writer of a recording. Thread-safe."""

    def __init__(self, file: str) -> None:
        self._lock = threading.Lock()
        self._started = time.monotonic()
        self.count = 0
        try:
            # Messages may contain tokens and private text, so the file is created readable by the user only.
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0), 0o600)
            self._file: IO[bytes] = os.fdopen(descriptor, "wb")
            if hasattr(os, "fchmod") and stat.S_ISREG(os.fstat(descriptor).st_mode):
                os.fchmod(descriptor, 0o600)  # if the file already existed
        except OSError as error:
            raise ConfigError(f"{file} cannot be written: {error.strerror}") from None

    def add(self, direction: Literal["in", "out"], data: bytes) -> None:
        """Write a message. A message that is not JSON is written as a string."""
        if not data.strip():
            return
        elapsed = round(time.monotonic() - self._started, 4)
        line = RecordedLine(time=elapsed, direction=direction, message=recorded_message(data))
        with self._lock:
            if not self._file.closed:
                self._file.write(msgspec.json.encode(line) + b"\n")
                self._file.flush()
                self.count += 1

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._file.close()


class RecordedRequest(msgspec.Struct):
    """Recorded request, its related notifications, and the response or None."""

    request: dict[str, Any]
    notices: list[dict[str, Any]]
    response: dict[str, Any] | None = None


class Recording:
    """Recorded exchanges, by request. Equal requests get their responses in order; the last response is then repeated.

    Raises:
        ConfigError: the file cannot be read, or is not a recording.
    """

    def __init__(self, file: str) -> None:
        self._exchanges: dict[str, list[RecordedRequest]] = {}
        self._given: dict[str, int] = {}
        self.count = 0
        pending: dict[tuple[str | None, int | None, str], RecordedRequest] = {}
        for line in read(file):
            message = message_in(line)
            for part in message if isinstance(message, list) else [message]:
                if not isinstance(part, dict):
                    continue
                place = line.server, line.connection, key(part.get("id"))
                if line.direction == "in" and "method" in part and "id" in part:
                    pending[place] = exchange = RecordedRequest(part, [])
                    self._exchanges.setdefault(request_key(part), []).append(exchange)
                    self.count += 1
                elif line.direction == "out" and "method" not in part:
                    found = pending.get(place)
                    if found is not None:
                        found.response = part
                elif line.direction == "out":
                    for (*connection, _), exchange in pending.items():
                        same = connection == [line.server, line.connection]
                        if same and exchange.response is None and belongs(part, exchange.request):
                            exchange.notices.append(part)

    def answer(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the recorded messages for a request: notifications, then the response, if any."""
        name = request_key(request)
        exchanges = self._exchanges.get(name) or self._alike(request)
        if not exchanges:
            return [self._error_response(request)]
        number = self._given.get(name, 0)
        self._given[name] = number + 1
        exchange = exchanges[min(number, len(exchanges) - 1)]
        messages = [renamed(notice, exchange.request, request) for notice in exchange.notices]
        if exchange.response is not None:
            messages.append({**renamed(exchange.response, exchange.request, request), "id": request["id"]})
        return messages

    def _alike(self, request: dict[str, Any]) -> list[RecordedRequest]:
        if request.get("method") not in OPENING:
            return []
        every = [exchange for exchanges in self._exchanges.values() for exchange in exchanges]
        return [exchange for exchange in every if exchange.request["method"] == request["method"]]

    def _error_response(self, request: dict[str, Any]) -> dict[str, Any]:
        method = request.get("method")
        if method == "ping":
            return {"jsonrpc": "2.0", "id": request["id"], "result": {}}
        known = [one for every in self._exchanges.values() for one in every if one.request["method"] == method]
        params = without_meta(request.get("params"))
        asked = f"{method} {msgspec.json.encode(params).decode()}"[:300]
        others = [msgspec.json.encode(without_meta(one.request.get("params"))).decode()[:200] for one in known[:5]]
        hint = f"; recorded are {', '.join(others)}" if others else ""
        error = {
            "code": INVALID_PARAMS if known else METHOD_NOT_FOUND,
            "message": f"This request was not recorded: {asked}{hint}",
        }
        return {"jsonrpc": "2.0", "id": request["id"], "error": error}


def read(file: str) -> list[RecordedLine]:
    """Return the lines of a recording.

    Raises:
        ConfigError: the file cannot be read, or is not a recording.
    """
    try:
        data = Path(file).read_bytes()
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from None
    return list(read_recording(file, data, RecordedLine))


def key(id: Any) -> str:
    return msgspec.json.encode(id).decode()


def without_meta(params: Any) -> Any:
    return {name: value for name, value in params.items() if name != "_meta"} if isinstance(params, dict) else params


def request_key(request: dict[str, Any]) -> str:
    """Return the key by which requests are compared: method and parameters, without id, ``_meta`` and client info."""
    params = without_meta(request.get("params")) or {}
    if request["method"] == "initialize" and isinstance(params, dict):
        params = {"protocolVersion": params.get("protocolVersion")}
    return msgspec.json.encode([request["method"], params], order="deterministic").decode()


def belongs(notice: dict[str, Any], request: dict[str, Any]) -> bool:
    """Return whether a notification is related to a request, by its progress token or its subscription id."""
    params = notice.get("params")
    if "id" in notice or not isinstance(params, dict):
        return False
    token = progress_token(request)
    meta = params.get("_meta")
    subscription = meta.get(SUBSCRIPTION) if isinstance(meta, dict) else None
    return (token is not None and params.get("progressToken") == token) or (
        subscription is not None and subscription == request["id"]
    )


def progress_token(request: dict[str, Any]) -> Any:
    params = request.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    return meta.get("progressToken") if isinstance(meta, dict) else None


def renamed(message: dict[str, Any], before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """Replace the progress token and the subscription id of a recorded message by the ids of the new request."""
    field = "params" if "params" in message else "result"
    params = message.get(field)
    if not isinstance(params, dict):
        return message
    params = dict(params)
    if "progressToken" in params and params["progressToken"] == progress_token(before):
        params["progressToken"] = progress_token(now)
    meta = params.get("_meta")
    if isinstance(meta, dict) and meta.get(SUBSCRIPTION) == before["id"]:
        params["_meta"] = {**meta, SUBSCRIPTION: now["id"]}
    return {**message, field: params}
