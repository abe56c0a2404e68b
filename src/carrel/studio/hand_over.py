"""Entries of servers for the configurations of other applications, without secrets."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from carrel.host.config.server_config import ServerConfig
from carrel.redaction import without_secrets
from carrel.studio.api import API

__all__ = ["HandOver", "hand_over"]


class HandOver(API, frozen=True, kw_only=True):
    """Entry of a server for other applications; ``entry`` is None for a server that runs inside Carrel.

    ``blank`` names the variables and headers whose values are left out, and the URL and arguments whose secrets are.
    """

    entry: dict[str, Any] | None
    blank: Sequence[str]


def hand_over(config: ServerConfig) -> HandOver:
    """Return the entry of a server without secrets."""
    if config.app is not None or (config.command is None and config.url is None):
        return HandOver(entry=None, blank=())
    entry: dict[str, Any] = {}
    blank: list[str] = []
    if config.command is not None:
        entry |= {"command": config.command, "args": arguments(config.args)}
        blank += [each for each, given in zip(entry["args"], config.args, strict=True) if each != given]
        if config.cwd is not None:
            entry["cwd"] = config.cwd
    else:
        url = without_secrets(config.url or "")
        entry |= {"type": "sse" if config.transport == "sse" else "http", "url": url}
        blank += [url] if url != config.url else []
    for field, values in (("env", config.env), ("headers", config.headers)):
        if values:
            entry[field] = dict.fromkeys(values, "")
            blank += values
    return HandOver(entry=entry, blank=tuple(blank))


def arguments(given: Sequence[str]) -> Sequence[str]:
    """Return the arguments of a command without secrets, also those after an option such as ``--token``."""
    hidden = shlex.split(without_secrets(shlex.join(given)))
    return hidden if len(hidden) == len(given) else [without_secrets(each) for each in given]
