"""Options of the logs source."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from carrel.sources.options import Count, Exclude, FollowLinks, Size, ThreadsPerClient

__all__ = ["FormatName", "LogsOptions"]

FormatName: TypeAlias = Literal[
    "auto",
    "json",
    "logfmt",
    "cri",
    "syslog",
    "access",
    "nginx-error",
    "apache-error",
    "klog",
    "timestamped",
    "python",
    "plain",
]


class LogsOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of logs: which logs are shared, how their lines are parsed, and the limits of one request."""

    log_name: Annotated[
        str | None, Meta(description="the name of the logs in URIs (default: the name of their folder, or journal)")
    ] = None
    exclude: Exclude = ()
    follow_symlinks: FollowLinks = False
    line_format: Annotated[FormatName, Meta(description="the format of the lines; auto detects it")] = "auto"
    timezone: Annotated[
        str | None, Meta(description="time zone of times without one, such as Europe/Berlin (default: the machine's)")
    ] = None
    margin: Annotated[Count, Meta(description="the number of seconds by which entries may be out of order")] = 10
    max_entries: Annotated[Count, Meta(description="the maximum number of entries in a response")] = 1000
    max_answer: Annotated[Size, Meta(description="the maximum size of a response")] = 256 * 1024
    max_search: Annotated[Size, Meta(description="the maximum number of bytes to scan per request")] = 64 * 1024 * 1024
    max_seconds: Annotated[Count, Meta(description="the time limit for a request, in seconds")] = 10
    notify_every: Annotated[Count, Meta(description="the minimum number of seconds between notifications of a URI")] = 2
    redact: Annotated[
        tuple[Annotated[str, Meta(title="PATTERN")], ...],
        Meta(description="replace matches of this pattern (RE2) with ***, before entries are searched"),
    ] = ()
    redact_secrets: Annotated[bool, Meta(description="replace passwords, tokens and keys with ***, by their names")] = (
        False
    )
    journal_directory: Annotated[str | None, Meta(description="read the journal in this folder (logs:journal)")] = None
    search_tool: Annotated[bool, Meta(description="offer the tool search_logs")] = False
    threads: Annotated[Count, Meta(description="the maximum number of threads that read logs")] = 8
    threads_per_client: ThreadsPerClient = 4
