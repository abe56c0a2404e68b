"""Serves a remote server over stdio, in the namespace ev: gateway.py (URL | COMMAND ARGUMENT…)."""

from __future__ import annotations

import sys

from carrel import Server
from carrel.host.remote import RemoteProvider

__all__ = ["build"]


def build(target: list[str]) -> Server:
    """Return the server. ``target`` is a URL, or a command and its arguments."""
    app = Server("gateway")
    remote = RemoteProvider(target[0] if len(target) == 1 else target, name="everything")
    remote.reserve()  # all clients are one person
    app.add_provider(remote, namespace="ev")
    return app


if __name__ == "__main__":
    build(sys.argv[1:]).run()
