"""Measure: programs of other people that connect to servers, each before the same small server of Carrel."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compat.measures.comparing import differences, normal, reason, start_reason
from compat.measures.originals import Checkout, environment
from compat.measures.probe import NoAnswer, probe
from compat.measures.report import Result
from compat.measures.servers import OLD, versions
from support.http_process import free_port

__all__ = ["CLIENTS", "Client", "measure"]

HERE = Path(__file__).parent
SERVER = (sys.executable, "-P", "-m", "carrel", "run", str(HERE / "programs" / "small_server.py"))
START_SECONDS = 60
#: What is sent to the operations that mcpo makes of tools.
BODIES = {"add": [{"a": 1, "b": 2}, {"a": "x"}, {}], "ask": [{"question": "Which?"}], "fails": [{"reason": "none"}]}

Env = Mapping[str, str]


@contextmanager
def serving(command: Sequence[str], port: int, env: Env | None = None) -> Iterator[str]:
    """Run a command, and yield the address of the port when the command listens there.

    Raises:
        NoAnswer: the command ends before.
    """
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command, env=env, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors, start_new_session=True
        )
        try:
            deadline = time.monotonic() + START_SECONDS
            while not listens(port):
                if process.poll() is not None or time.monotonic() > deadline:
                    errors.seek(0)
                    raise NoAnswer("does not listen", errors.read().decode(errors="replace"))
                time.sleep(0.05)
            yield f"http://127.0.0.1:{port}"
        finally:
            try:
                os.killpg(process.pid, 9)
            except ProcessLookupError:
                pass  # the process has ended before
            process.wait()


def listens(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def small_server() -> Iterator[str]:
    """Serve the small server over HTTP, and yield its URL."""
    port = free_port()
    with serving([*SERVER, "--http", str(port)], port) as url:
        yield f"{url}/mcp"


def before_url(command: Sequence[str], env: Env, folder: Path) -> Any:
    """Return what mcp-proxy answers on stdio for a server at a URL."""
    with small_server() as url:
        return probe([*command, "--transport", "streamablehttp", url], env=env)


def before_process(command: Sequence[str], env: Env, folder: Path) -> Any:
    """Return what mcp-proxy answers over both HTTP transports for a server on stdio; the original connects to it."""
    port = free_port()
    with serving([*command, "--port", str(port), "--", *SERVER], port, env) as url:
        proxy = str(folder / "mcp-proxy")
        return {
            **probe([proxy, "--transport", "streamablehttp", f"{url}/mcp"]),
            **{f"sse {key}": value for key, value in probe([proxy, f"{url}/sse"]).items()},
        }


def as_openapi(command: Sequence[str], env: Env, folder: Path) -> Any:
    """Return the description and the responses of the operations that mcpo makes of tools."""
    port = free_port()
    with serving([*command, "--port", str(port), "--", *SERVER], port, env) as url:
        found = {"description": fetched(f"{url}/openapi.json")}
        for name, bodies in BODIES.items():
            found |= {f"{name} {body}": fetched(f"{url}/{name}", body) for body in bodies}
        return found


def fetched(url: str, body: Any = None) -> Any:
    """Return the status and the JSON value of a response."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=START_SECONDS) as response:
            return [response.status, json.load(response)]
    except urllib.error.HTTPError as error:
        return [error.code, json.load(error)]


def in_langchain(command: Sequence[str], env: Env, folder: Path) -> Any:
    """Return what a program prints that lists and calls tools with langchain-mcp-adapters."""
    with small_server() as url:
        done = subprocess.run([*command, json.dumps(SERVER), url], env=env, capture_output=True, text=True)
    if done.returncode != 0:
        raise NoAnswer("failed", done.stderr)
    return {"lines": done.stdout.splitlines()}


@dataclass(frozen=True)
class Client:
    """Program: what it does, its package, how it is used, and the packages with which the original starts."""

    about: str
    package: str
    use: Callable[[Sequence[str], Env, Path], Any]
    file: str = ""
    more: tuple[str, ...] = ()
    older: tuple[str, ...] = ()  # packages that only the original needs


CLIENTS = (
    Client("mcp-proxy, before a URL", "mcp-proxy", before_url),
    Client("mcp-proxy, before a process", "mcp-proxy", before_process),
    Client("mcpo", "mcpo", as_openapi, more=("fastapi<0.120",), older=OLD),
    Client(
        "langchain-mcp-adapters", "langchain-mcp-adapters", in_langchain, str(HERE / "programs/langchain_client.py")
    ),
)


def measure(checkout: Checkout, wanted: Sequence[str] = ()) -> Result:
    """Compare the programs on the original and on Carrel."""
    result = Result("Clients and proxies of other people", ("program", "packages", "on Carrel", "answers"))
    for client in CLIENTS:
        if wanted and not any(part in client.about for part in wanted):
            continue
        try:
            verdict, count, reasons = compare(client, checkout)
        except NoAnswer as error:
            verdict, count, reasons = "does not start", 0, [f"{error}: {start_reason(error.errors)}"]
        about = ", ".join(
            f"{name} {version}".strip() for name, version in versions(python(client), client.package).items()
        )
        result.lines.append((client.about, about, verdict, count))
        result.failures += [(client.about, why) for why in reasons]
    return result


def python(client: Client, *older: str) -> Path:
    """Return the Python of the client's environment."""
    name = f"server-{client.package}{'-before' if older else ''}"
    return environment(name, [client.package, *client.more, *older]) / "bin" / "python"


def compare(client: Client, checkout: Checkout) -> tuple[str, int, list[str]]:
    """Return the verdict on a client, the number of its answers, and how they differ.

    Raises:
        NoAnswer: the client does not start.
    """
    ours, theirs = python(client), python(client, *client.older)
    program = [client.file] if client.file else ["--", client.package]
    original = [str(theirs), client.file] if client.file else [str(theirs.parent / client.package)]
    carrel = checkout.command(ours, "run", "--compat", *program)
    expected = normal(client.use(original, os.environ, theirs.parent))
    found = normal(client.use(carrel, checkout.environ(), ours.parent))
    unlike = list(differences(expected, found))
    count = len(expected.get("lines", expected))
    return f"{len(unlike)} differences" if unlike else "the same", count, sorted({reason(*each) for each in unlike})
