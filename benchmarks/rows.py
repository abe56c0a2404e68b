"""The rows of the comparison: measurements, units and budgets for Carrel."""

from dataclasses import dataclass
from functools import partial

from . import measures, messages
from .measures import Measure
from .messages import HANDSHAKE, STATELESS

SCALES = {"us": 1e6, "ms": 1e3, "MB": 1e-6, "KB": 1e-3, "modules": 1.0}
"""Factors that convert the value of a sample to the unit of its row."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table.

    `budget` is the maximum for Carrel and `floor` the figure of the bare server, on the machine where the budgets were
    set, in the unit of the row. Their quotient is the maximum ratio on any machine. Budgets that do not depend on speed
    (`absolute`) are compared directly. Rows with `extra` are skipped in quick runs. Carrel's figure must be `wanted`
    times lower than the figure of the official SDK.
    """

    name: str
    title: str
    unit: str
    measure: Measure
    budget: float | None = None
    floor: float | None = None
    absolute: bool = False
    extra: bool = False
    wanted: float | None = None

    @property
    def allowed(self) -> float | None:
        """How many times the bare server Carrel may cost."""
        return self.budget / self.floor if self.budget and self.floor else None


small, template, call, everything = (
    messages.small_read,
    messages.template_read,
    messages.tool_call,
    messages.list_resources,
)
stdio, http, fresh = measures.stdio, measures.http, measures.fresh
gateway = partial(measures.gateway, ask=call, revision=HANDSHAKE, in_flight=64)

GATEWAY_ROWS = (
    Row("gateway-stdio", "gateway to stdio, tool call, 64 in flight", "us", gateway("stdio"), 60, absolute=True),
    Row("gateway-http", "gateway to HTTP, tool call, 64 in flight", "us", gateway("http"), 200, absolute=True),
)

ROWS = (
    Row("start", "process start to first answer, stdio", "ms", measures.measure_start, 100, 62),
    Row("import-modules", "modules after import", "modules", measures.measure_modules),
    Row("import-time", "import", "ms", measures.measure_import),
    Row("stdio-read", "stdio, small read, 64 in flight", "us", stdio(small, HANDSHAKE, 64), 10, 4.5),
    Row("stdio-template", "stdio, template read, 64 in flight", "us", stdio(template, HANDSHAKE, 64), 8, 4.5),
    Row("stdio-call", "stdio, tool call, 64 in flight", "us", stdio(call, HANDSHAKE, 64), 10, 4.5),
    Row("stdio-wait", "stdio, tool that waits, 64 in flight", "us", stdio(messages.waiting_call, HANDSHAKE, 64)),
    Row("stdio-list", "stdio, list of 1,000, 64 in flight", "us", stdio(everything, HANDSHAKE, 64), 260, 200),
    Row("stdio-text", "stdio, 1 MiB text, 8 in flight", "ms", stdio(messages.large_text, HANDSHAKE, 8)),
    Row("stdio-blob", "stdio, 1 MiB binary, 8 in flight", "ms", stdio(messages.large_blob, HANDSHAKE, 8)),
    Row("http-read", "HTTP, small read, 32 connections", "us", http(small, HANDSHAKE, 32), 60, 39),
    Row("http-template", "HTTP, template read, 32 connections", "us", http(template, HANDSHAKE, 32)),
    Row("http-call", "HTTP, tool call, 32 connections", "us", http(call, HANDSHAKE, 32)),
    Row("http-wait", "HTTP, tool that waits, 32 connections", "us", http(messages.waiting_call, HANDSHAKE, 32)),
    Row("http-list", "HTTP, list of 1,000, 32 connections", "us", http(everything, HANDSHAKE, 32)),
    Row("http-text", "HTTP, 1 MiB text, 8 connections", "ms", http(messages.large_text, HANDSHAKE, 8), 1.1, 0.9),
    Row("http-blob", "HTTP, 1 MiB binary, 8 connections", "ms", http(messages.large_blob, HANDSHAKE, 8), 1.4, 1.15),
    *GATEWAY_ROWS,
    Row("fan-out", "one change to 1,000 listeners", "ms", fresh(partial(measures.fan_out, times=10)), 30, 22),
    Row("memory-idle", "memory, idle over HTTP", "MB", fresh(measures.memory_idle), 40, 33, absolute=True),
    Row("memory-session", "memory per session", "KB", fresh(measures.memory_per_session), 1.2, 0.3, absolute=True),
    Row("memory-stream", "memory per open stream", "KB", fresh(measures.memory_per_stream), 13, 12, absolute=True),
    Row("stdio-read-2026", "stdio, stateless, small read", "us", stdio(small, STATELESS, 64), extra=True),
    Row("stdio-template-2026", "stdio, stateless, template read", "us", stdio(template, STATELESS, 64), extra=True),
    Row("stdio-call-2026", "stdio, stateless, tool call", "us", stdio(call, STATELESS, 64), extra=True),
    Row("stdio-list-2026", "stdio, stateless, list of 1,000", "us", stdio(everything, STATELESS, 64), extra=True),
    Row("http-read-2026", "HTTP, stateless, small read", "us", http(small, STATELESS, 32), extra=True),
    Row("http-template-2026", "HTTP, stateless, template read", "us", http(template, STATELESS, 32), extra=True),
    Row("http-call-2026", "HTTP, stateless, tool call", "us", http(call, STATELESS, 32), extra=True),
    Row("http-list-2026", "HTTP, stateless, list of 1,000", "us", http(everything, STATELESS, 32), extra=True),
)
