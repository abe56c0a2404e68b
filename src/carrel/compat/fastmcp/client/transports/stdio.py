"""Transports to processes."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from carrel.compat.fastmcp.client.session import Session
from carrel.compat.fastmcp.client.transports.base import ClientTransport
from carrel.compat.mcp.client.stdio import StdioServerParameters, stdio_client

__all__ = [
    "FastMCPStdioTransport",
    "NodeStdioTransport",
    "NpxStdioTransport",
    "PythonStdioTransport",
    "StdioTransport",
    "UvxStdioTransport",
]


class StdioTransport(ClientTransport):
    """Transport to a process, which is started for each session."""

    def __init__(
        self,
        command: str,
        args: list[str],
        env: dict[str, str] | None = None,
        cwd: str | None = None,
        keep_alive: bool | None = None,
        log_file: Path | Any = None,
    ) -> None:
        self.command, self.args, self.env, self.cwd = command, args, env, cwd
        self.keep_alive, self.log_file = keep_alive, log_file

    def __repr__(self) -> str:
        return f"<{type(self).__name__}(command='{self.command}', args={self.args})>"

    @contextlib.asynccontextmanager
    async def connect_session(self, **options: Any) -> AsyncIterator[Session]:
        """Yield a session with the process."""
        parameters = StdioServerParameters(command=self.command, args=self.args, env=self.env, cwd=self.cwd)
        async with contextlib.AsyncExitStack() as stack:
            log: Any = self.log_file
            if isinstance(log, str | Path):
                log = stack.enter_context(Path(log).open("a"))  # noqa: ASYNC230, SIM115
            read, write = await stack.enter_async_context(stdio_client(parameters, errlog=log))
            yield await stack.enter_async_context(Session(read, write, **options))


def _script(path: str | Path, suffix: str) -> str:
    found = Path(path).resolve()
    if not found.is_file():
        raise FileNotFoundError(f"Script not found: {path}")
    if found.suffix != suffix:
        raise ValueError(f"Not a {suffix} script: {path}")
    return str(found)


class PythonStdioTransport(StdioTransport):
    """Transport to a Python file. Within ``carrel run --compat``, the file is run like that too."""

    def __init__(
        self,
        script_path: str | Path,
        args: list[str] | None = None,
        env: dict[str, str] | None = None,
        cwd: str | None = None,
        python_cmd: str = sys.executable,
        **options: Any,
    ) -> None:
        self.script_path = _script(script_path, ".py")
        compat = ["-m", "carrel.compat"] if python_cmd == sys.executable else []
        super().__init__(python_cmd, [*compat, self.script_path, *(args or [])], env, cwd, **options)


class FastMCPStdioTransport(PythonStdioTransport):
    """Transport to a Python file that defines a server, whose arguments are those of the file."""


class NodeStdioTransport(StdioTransport):
    """Transport to a JavaScript file."""

    def __init__(
        self,
        script_path: str | Path,
        args: list[str] | None = None,
        env: dict[str, str] | None = None,
        cwd: str | None = None,
        node_cmd: str = "node",
        **options: Any,
    ) -> None:
        self.script_path = _script(script_path, ".js")
        super().__init__(node_cmd, [self.script_path, *(args or [])], env, cwd, **options)


class UvxStdioTransport(StdioTransport):
    """Transport to a tool of a Python package, run with ``uvx``."""

    def __init__(
        self,
        tool_name: str,
        tool_args: list[str] | None = None,
        project_directory: str | None = None,
        python_version: str | None = None,
        with_packages: list[str] | None = None,
        from_package: str | None = None,
        env_vars: dict[str, str] | None = None,
        **options: Any,
    ) -> None:
        arguments = ["--python", python_version] if python_version else []
        arguments += [each for package in with_packages or () for each in ("--with", package)]
        arguments += ["--from", from_package] if from_package else []
        arguments += [tool_name, *(tool_args or [])]
        super().__init__("uvx", arguments, env_vars, project_directory, **options)


class NpxStdioTransport(StdioTransport):
    """Transport to an npm package, run with ``npx``."""

    def __init__(
        self,
        package: str,
        args: list[str] | None = None,
        project_directory: str | None = None,
        env_vars: dict[str, str] | None = None,
        use_package_lock: bool = True,
        **options: Any,
    ) -> None:
        if shutil.which("npx") is None:
            raise ValueError("Command 'npx' not found")
        arguments = [*(["--prefer-offline"] if use_package_lock else []), package, *(args or [])]
        super().__init__("npx", arguments, env_vars, project_directory, **options)
