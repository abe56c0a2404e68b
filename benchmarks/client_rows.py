"""The client rows: measurements, units, and the requirements for Carrel's client."""

from functools import partial

from .client_measures import events, first, flight, hear, load, memory, start, watch
from .messages import STATELESS
from .rows import Row

READY = 100
"""Milliseconds from the import to the first answer."""

STDIO, HTTP = 10, 5
"""How many times less than the official client a call must cost."""

events_load = partial(load, address=events)

CLIENT_ROWS = (
    Row("stdio-start", "stdio, process start to first answer", "ms", start("stdio")),
    Row("stdio-import", "stdio, first answer, import included", "ms", first("stdio", "begun")),
    Row("stdio-first", "stdio, first answer after import", "ms", first("stdio", "imported"), READY, absolute=True),
    Row("http-start", "HTTP, process start to first answer", "ms", start("http")),
    Row("http-import", "HTTP, first answer, import included", "ms", first("http", "begun")),
    Row("http-first", "HTTP, first answer after import", "ms", first("http", "imported"), READY, absolute=True),
    Row("stdio-read", "stdio, small read, 64 in flight", "us", load("stdio", "read", 64), wanted=STDIO),
    Row("stdio-call", "stdio, tool call, 64 in flight", "us", load("stdio", "call", 64), wanted=STDIO),
    Row("stdio-list", "stdio, list of 1,000, 64 in flight", "us", load("stdio", "list", 64), wanted=STDIO),
    Row("stdio-text", "stdio, 1 MiB text, 8 in flight", "ms", load("stdio", "text", 8)),
    Row("stdio-blob", "stdio, 1 MiB binary, 8 in flight", "ms", load("stdio", "blob", 8)),
    Row("stdio-read-alone", "stdio, small read, one at a time", "us", load("stdio", "read", 1), wanted=STDIO),
    Row("stdio-call-alone", "stdio, tool call, one at a time", "us", load("stdio", "call", 1), wanted=STDIO),
    Row("stdio-list-alone", "stdio, list of 1,000, one at a time", "us", load("stdio", "list", 1), wanted=STDIO),
    Row("http-read", "HTTP, small read, 64 in flight", "us", load("http", "read", 64), wanted=HTTP),
    Row("http-call", "HTTP, tool call, 64 in flight", "us", load("http", "call", 64), wanted=HTTP),
    Row("http-list", "HTTP, list of 1,000, 64 in flight", "us", load("http", "list", 64), wanted=HTTP),
    Row("http-events", "HTTP, small read as events, 64 in flight", "us", events_load("http", "read", 64), wanted=HTTP),
    Row("http-text", "HTTP, 1 MiB text, 8 in flight", "ms", load("http", "text", 8)),
    Row("http-blob", "HTTP, 1 MiB binary, 8 in flight", "ms", load("http", "blob", 8)),
    Row("http-read-alone", "HTTP, small read, one at a time", "us", load("http", "read", 1), wanted=HTTP),
    Row("http-call-alone", "HTTP, tool call, one at a time", "us", load("http", "call", 1), wanted=HTTP),
    Row("http-list-alone", "HTTP, list of 1,000, one at a time", "us", load("http", "list", 1), wanted=HTTP),
    Row("stdio-flight", "stdio, 1,000 calls at once", "ms", flight("stdio"), wanted=STDIO),
    Row("http-flight", "HTTP, 1,000 calls at once", "ms", flight("http"), wanted=HTTP),
    Row("stdio-watch", "stdio, subscribing to 1,000", "ms", watch("stdio")),
    Row("stdio-heard", "stdio, one change of 1,000 heard of", "ms", hear("stdio")),
    Row("http-watch", "HTTP, subscribing to 1,000", "ms", watch("http")),
    Row("http-heard", "HTTP, one change of 1,000 heard of", "ms", hear("http")),
    Row("stdio-memory", "stdio, memory after 1,000 calls", "MB", memory("stdio", 0), extra=True),
    Row("stdio-memory-10k", "stdio, more after 10,000 calls", "MB", memory("stdio", 1), extra=True),
    Row("stdio-memory-100k", "stdio, more after 100,000 calls", "MB", memory("stdio", 2), 1, absolute=True, extra=True),
    Row("http-memory", "HTTP, memory after 1,000 calls", "MB", memory("http", 0), extra=True),
    Row("http-memory-10k", "HTTP, more after 10,000 calls", "MB", memory("http", 1), extra=True),
    Row("http-memory-100k", "HTTP, more after 100,000 calls", "MB", memory("http", 2), 1, absolute=True, extra=True),
    Row(
        "stdio-read-2026",
        "stdio, stateless, small read",
        "us",
        load("stdio", "read", 64, STATELESS),
        extra=True,
        wanted=STDIO,
    ),
    Row(
        "stdio-call-2026",
        "stdio, stateless, tool call",
        "us",
        load("stdio", "call", 64, STATELESS),
        extra=True,
        wanted=STDIO,
    ),
    Row(
        "http-read-2026",
        "HTTP, stateless, small read",
        "us",
        load("http", "read", 64, STATELESS),
        extra=True,
        wanted=HTTP,
    ),
    Row(
        "http-call-2026",
        "HTTP, stateless, tool call",
        "us",
        load("http", "call", 64, STATELESS),
        extra=True,
        wanted=HTTP,
    ),
    Row("stdio-watch-2026", "stdio, stateless, listening to 1,000", "ms", watch("stdio", STATELESS), extra=True),
    Row("stdio-heard-2026", "stdio, stateless, one change heard of", "ms", hear("stdio", STATELESS), extra=True),
    Row("http-watch-2026", "HTTP, stateless, listening to 1,000", "ms", watch("http", STATELESS), extra=True),
    Row("http-heard-2026", "HTTP, stateless, one change heard of", "ms", hear("http", STATELESS), extra=True),
)
