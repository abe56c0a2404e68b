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
        str | None, Meta(description="the name of the logs in URIs (default: that of their folder, or journal)")
    ] = None
    exclude: Exclude = ()
    follow_symlinks: FollowLinks = False
    line_format: Annotated[FormatName, Meta(description="the format of the lines, where it should not be detected")] = (
        "auto"
    )
    timezone: Annotated[
        str | None, Meta(description="time zone of times that have none, as Europe/Berlin (default: this machine's)")
    ] = None
    margin: Annotated[Count, Meta(description="by how many seconds entries may be out of order")] = 10
    max_entries: Annotated[Count, Meta(description="the most entries in one answer")] = 1000
    max_answer: Annotated[Size, Meta(description="the most text in one answer")] = 256 * 1024
    max_search: Annotated[Size, Meta(description="the most that is looked through for one answer")] = 64 * 1024 * 1024
    max_seconds: Annotated[Count, Meta(description="the most seconds that one answer takes")] = 10
    notify_every: Annotated[Count, Meta(description="a subscriber is notified at most every so many seconds")] = 2
    redact: Annotated[
        tuple[Annotated[str, Meta(title="PATTERN")], ...],
        Meta(description="show *** for what matches (RE2), before anything is searched"),
    ] = ()
    redact_secrets: Annotated[bool, Meta(description="show *** for passwords, tokens and keys by their names")] = False
    journal_directory: Annotated[str | None, Meta(description="read the journal in this folder (logs:journal)")] = None
    search_tool: Annotated[bool, Meta(description="offer the tool search_logs")] = False
    threads: Annotated[Count, Meta(description="the most threads that read logs")] = 8
    threads_per_client: ThreadsPerClient = 4
