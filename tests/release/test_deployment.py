"""docs/deployment.md: its configurations in nginx, Caddy and HAProxy, and its command lines and units as printed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from carrel import Client, Context, Server
from carrel.cli.server import serve
from support.debian import program
from support.http_process import free_port
from support.http_server import over_http

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1000)]

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    """Return the first code block of a language."""
    found = re.search(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def nginx_command(port: int, upstream: int, folder: Path) -> list[str]:
    """Write the configuration of the page for nginx, without TLS, and return the command."""
    site = block("nginx").replace("127.0.0.1:8000", f"127.0.0.1:{upstream}")
    site = re.sub(r"listen 443 ssl;", f"listen 127.0.0.1:{port};", site)
    site = re.sub(r"^\s*(http2 on|ssl_certificate\w*).*$", "", site, flags=re.MULTILINE)
    temporary = "".join(
        f"{name}_temp_path {folder}/{name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"daemon off; pid {folder}/pid; error_log {folder}/error.log;\nevents {{}}\n"
        f"http {{\naccess_log off;\n{temporary}{site}\n}}\n"
    )
    return [program("nginx"), "-c", str(folder / "nginx.conf"), "-e", str(folder / "error.log")]


def caddy_command(port: int, upstream: int, folder: Path) -> list[str]:
    """Write the configuration of the page for Caddy, without TLS, and return the command."""
    site = block("caddy").replace("127.0.0.1:8000", f"127.0.0.1:{upstream}")
    site = site.replace("books.example.org {", f"http://:{port} {{\n\tbind 127.0.0.1", 1)
    (folder / "Caddyfile").write_text(f"{{\n\tadmin off\n\tgrace_period 1s\n}}\n{site}")
    return [program("caddy"), "run", "--adapter", "caddyfile", "--config", str(folder / "Caddyfile")]


def haproxy_command(port: int, upstream: int, folder: Path) -> list[str]:
    """Write the configuration of the page for HAProxy, without TLS, and return the command."""
    site = block("haproxy").replace("127.0.0.1:8000", f"127.0.0.1:{upstream}")
    site = re.sub(r"bind :443 .*", f"bind 127.0.0.1:{port}", site)
    (folder / "haproxy.cfg").write_text(site)
    return [program("haproxy"), "-db", "-f", str(folder / "haproxy.cfg")]


PROXIES = {"nginx": nginx_command, "caddy": caddy_command, "haproxy": haproxy_command}


@contextlib.contextmanager
def proxied(proxy: str, upstream: int, folder: Path) -> Iterator[int]:
    """Run a proxy with the configuration of the page, without TLS, in front of a server. Yield its port."""
    port = free_port()
    command = PROXIES[proxy](port, upstream, folder)
    with (folder / "output.txt").open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env={**os.environ, "HOME": str(folder)})
    try:
        for _ in range(3000):
            with contextlib.suppress(httpx2.TransportError):
                if httpx2.get(f"http://127.0.0.1:{port}/healthz").status_code != 503:
                    break
            assert process.poll() is None, (folder / "output.txt").read_text()
            time.sleep(0.02)
        yield port
    finally:
        process.terminate()
        process.wait(60)


@pytest.fixture
def app() -> Server:
    app = Server("behind")
    app.resources.add("note://one", "1")

    @app.tool()
    async def slow(context: Context) -> str:
        context.report_progress(1, 2)
        assert await asyncio.to_thread(heard.wait, 60)
        return "done"

    @app.tool()
    def change() -> str:
        app.resources.replace("note://one", "2")
        return "changed"

    heard = threading.Event()  # the server runs in a thread of its own
    app.heard = heard  # type: ignore[attr-defined]
    return app


@pytest.mark.parametrize("proxy", PROXIES)
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_through_a_proxy_progress_and_changes_arrive_while_a_call_runs(
    proxy: str, app: Server, tmp_path: Path, revision: str
) -> None:
    with over_http(app, allowed_hosts="books.example.org") as origin:
        upstream = int(origin.rpartition(":")[2])
        with proxied(proxy, upstream, tmp_path) as port:

            def progress(*_: object) -> None:
                app.heard.set()  # type: ignore[attr-defined]

            async with Client(f"http://127.0.0.1:{port}/mcp", revision=revision) as client:
                # The call ends only once its progress has come through: nothing holds the stream back.
                assert (await client.call_tool("slow", progress=progress)).text == "done"
                async with client.watch("note://one") as changes:
                    await client.call_tool("change")
                    assert (await asyncio.wait_for(anext(aiter(changes)), 60)).uri == "note://one"


def test_the_command_lines_of_the_page_are_accepted_by_carrel_serve() -> None:
    lines = re.findall(r"^(?:ExecStart=/opt/carrel/bin/)?(carrel serve .*)$", PAGE, re.MULTILINE)
    reader = serve.parser()

    addresses = []
    for line in lines:
        options = reader.parse_args(shlex.split(line)[2:])
        assert options.allow_host == ["books.example.org"]
        addresses.append((options.http, options.certificate))
    assert addresses == [
        ("127.0.0.1:8000", None),
        ("0.0.0.0:8443", "/etc/ssl/books.pem"),
        ("127.0.0.1:8000", None),
    ]


def test_the_systemd_unit_is_valid(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    unit = block("ini").replace("/opt/carrel/bin/carrel", sys.executable)
    (tmp_path / "carrel.service").write_text(unit)
    sections = re.findall(r"^\[(\w+)\]$", unit, re.MULTILINE)

    assert sections == ["Unit", "Service", "Install"]
    if analyze is not None:  # absent in most containers; the unit is short enough to be read as well
        done = subprocess.run([analyze, "verify", tmp_path / "carrel.service"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
