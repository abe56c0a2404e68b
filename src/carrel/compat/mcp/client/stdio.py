"""Client transport over stdio: the server is a process."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field

from carrel.compat.streams import ClientStream
from carrel.transports.client.stdio import StdioTransport, environment

__all__ = ["StdioServerParameters", "get_default_environment", "stdio_client"]


class StdioServerParameters(BaseModel):
    """Command of a server. ``env`` is added to the few variables that are always passed on."""

    command: str
    args: list[str] = Field(default_factory=list)
    env: dict[str, str] | None = None
    cwd: str | Path | None = None
    encoding: str = "utf-8"
    encoding_error_handler: Literal["strict", "ignore", "replace"] = "strict"


def get_default_environment() -> dict[str, str]:
    """Return the environment variables that are always passed on."""
    return environment()


@asynccontextmanager
async def stdio_client(
    server: StdioServerParameters, errlog: Any = None
) -> AsyncIterator[tuple[ClientStream, ClientStream]]:
    """Yield the streams of a server, whose process is started and stopped with the session on them.

    Raises:
        FileNotFoundError: there is no such program.
    """
    env = environment(server.env)
    if shutil.which(server.command, path=env.get("PATH")) is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), server.command)
    output = sys.stderr if errlog is None else errlog

    def tell(line: str) -> None:
        output.write(f"{line}\n")

    stream = ClientStream(
        lambda: StdioTransport([server.command, *server.args], env=server.env, cwd=server.cwd, stderr=tell)
    )
    yield stream, stream
