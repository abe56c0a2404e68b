"""Message of a server over HTTP when it has started: its URL, and how clients connect to it."""

from __future__ import annotations

import json
import shlex

__all__ = ["entry_of", "greeting"]


def entry_of(name: str, url: str, headers: dict[str, str] | None = None) -> str:
    """Return the entry of a server over HTTP in the configuration of an application, as a line of JSON."""
    entry = {"url": url} if headers is None else {"url": url, "headers": headers}
    return json.dumps({"mcpServers": {name: entry}}, ensure_ascii=False)


def greeting(name: str, url: str, sse_path: str | None = None) -> str:
    """Return the message. ``sse_path`` is the path of the HTTP+SSE transport, if it is served."""
    origin = url.split("/", 3)[:3]
    lines = [
        "",
        f"  {name!r} is ready (Ctrl-C stops it)",
        "",
        f"    URL      {url}",
        *([] if sse_path is None else [f"    old URL  {'/'.join(origin)}/{sse_path.strip('/')} (HTTP+SSE)"]),
        "",
        "  Connect an application:",
        f"    carrel install vscode {url} --name {shlex.quote(name)}",
        "  or any other by hand:",
        f"    {entry_of(name, url)}",
        "",
    ]
    return "\n".join(lines) + "\n"
