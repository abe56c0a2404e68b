"""Audit logs under reloads, rotations, restarts and full disks: `python -m benchmarks.soak.audit --minutes 60`.

Two servers write their logs to one small disk in memory: one refuses requests while the disk is full, the other one
counts the missing lines. Clients of both eras send requests with ids that are never repeated. Meanwhile, the policy
and the limits are replaced, the logs rotate by size and by an outside program, the disk is full for some seconds, and
the servers are restarted. At the end, each response is compared with the lines. Linux, as root (for the disk).
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx2

from carrel.audit.verify import verify_files
from carrel.security.server.static_tokens import make_token

from ..processes import free_port

DISK = 192 * 1024**2
MAX_SIZE = 128 * 1024
SETTINGS = """
[http]
port = {port}

[auth]
tokens = "tokens.txt"

[audit]
file = "{disk}/{name}.jsonl"
chain = true
max_size = {size}
keep = 2000
on_full = "{on_full}"

[access.roles]
ann = {{ token = "ann" }}
bob = {{ token = "bob" }}

[[access.rules]]
role = ["ann", "bob"]
allow = "all"

[[access.rules]]
role = "bob"
deny = "all"
resources = "file:///**/{hidden}.md"

[[limits.rules]]
requests = "{rate}/minute"

[[sources]]
path = "notes"
"""
STATELESS = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "soak", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
#: Seconds between two events of a kind.
RELOAD, FULL, MOVE, RESTART = 7.0, 180.0, 240.0, 420.0
#: Seconds for which the disk is full.
FULL_FOR = 8.0


class AuditedServer:
    """Server with an audit log, its clients, and the statuses of the responses that they got, by request id."""

    def __init__(self, name: str, on_full: str, folder: Path, disk: Path, tokens: dict[str, str]) -> None:
        self.name = name
        self._on_full = on_full
        self._folder = folder
        self._disk = disk
        self._tokens = tokens
        self._port = free_port()
        self._file = folder / f"{name}.toml"
        self._process: subprocess.Popen[bytes] | None = None
        self._errors = (folder / f"{name}.log").open("wb")
        self.answers: dict[int, str] = {}
        """``ok``, ``denied``, ``503``, or ``unknown`` if the connection was lost, by request id."""
        self.unauthorized = 0
        self.starts = 0
        self.policies = 0
        self.errors = 0
        self.moved = 0

    def write_settings(self, *, valid: bool = False) -> None:
        """Write the configuration with another policy and limit; now and then with an error, unless ``valid``."""
        self.policies += 1
        text = SETTINGS.format(
            port=self._port, disk=self._disk, name=self.name, size=MAX_SIZE, on_full=self._on_full,
            hidden="one" if self.policies % 2 else "two", rate=10**6 + self.policies,
        )  # fmt: skip
        if self.policies % 10 == 0 and not valid:
            self.errors += 1
            text += '\n[[access.rules]]\nrole = "nobody"\nallow = "all"\n'
        draft = self._file.with_suffix(".new")
        draft.write_text(text)
        draft.replace(self._file)

    async def start(self) -> None:
        """Start the server, and wait until it answers."""
        self.starts += 1
        command = [sys.executable, "-m", "carrel", "serve", "--config", str(self._file)]
        self._process = subprocess.Popen(command, cwd=self._folder, stderr=self._errors, stdout=subprocess.DEVNULL)
        async with httpx2.AsyncClient() as http:
            for _ in range(600):
                with suppress(httpx2.HTTPError):
                    if (await http.get(f"http://127.0.0.1:{self._port}/healthz")).status_code == 200:
                        return
                if self._process.poll() is not None:
                    break
                await asyncio.sleep(0.1)
        raise SystemExit(f"{self.name} did not start: see {self._errors.name}")

    async def stop(self) -> None:
        """End the server by SIGTERM, and wait."""
        assert self._process is not None
        self._process.terminate()
        await asyncio.to_thread(self._process.wait)

    def move(self) -> None:
        """Rename the log, as logrotate does."""
        self.moved += 1
        with suppress(FileNotFoundError):
            (self._disk / f"{self.name}.jsonl").rename(self._disk / f"{self.name}.moved-{self.moved}")

    def files(self) -> list[str]:
        """Return the files of the log, by the number of their first line."""
        found = [path for path in self._disk.glob(f"{self.name}.*") if path.stat().st_size]
        return [str(path) for path in sorted(found, key=lambda path: first_number(path))]

    async def client(self, user: str, era: str, ids: itertools.count[int], pause: float) -> None:
        """Read, list and send an invalid token now and then, until cancelled."""
        url = f"http://127.0.0.1:{self._port}/mcp"
        headers = {
            "accept": "application/json, text/event-stream",
            "authorization": f"Bearer {self._tokens[user]}",
            "mcp-protocol-version": era,
        }
        notes = self._folder / "notes"
        session: dict[str, str] = {}
        async with httpx2.AsyncClient(timeout=30) as http:
            while True:
                await asyncio.sleep(random.uniform(0.5, 1.5) * pause)
                number = next(ids)
                if number % 50 == 0:
                    with suppress(httpx2.HTTPError):
                        bad = {**headers, "authorization": "Bearer nobody"}
                        self.unauthorized += (await http.post(url, json={}, headers=bad)).status_code == 401
                method, params = "resources/read", {"uri": f"file://{notes}/{random.choice(('one', 'two', 'all'))}.md"}
                if number % 5 == 0:
                    method, params = "resources/templates/list", {}
                starts = era < "2026" and not session
                if era >= "2026":
                    params = {**params, "_meta": STATELESS}
                elif starts:
                    method = "initialize"
                    params = {
                        "protocolVersion": era, "capabilities": {}, "clientInfo": {"name": "soak", "version": "1"}
                    }  # fmt: skip
                self.answers[number] = "unknown"
                body = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
                more = {**session, **({"mcp-method": method} if era >= "2026" else {})}
                if era >= "2026" and "uri" in params:
                    more["mcp-name"] = params["uri"]
                try:
                    response = await http.post(url, json=body, headers={**headers, **more})
                except httpx2.HTTPError:
                    session = {}
                    continue
                self.answers[number] = outcome(response)
                if starts and response.status_code == 200:
                    session = {"mcp-session-id": response.headers["mcp-session-id"]}
                elif response.status_code == 404 and self.answers[number] == "404":
                    session = {}  # the server was restarted


def outcome(response: httpx2.Response) -> str:
    """Return what a response says: ``ok``, ``denied``, or another HTTP status."""
    if response.status_code in (401, 503):
        return str(response.status_code)
    text = response.text
    if text.startswith(("event:", "data:", "id:", ":")):
        text = next(line[5:] for line in text.splitlines() if line.startswith("data:") and len(line) > 7)
    answer = json.loads(text)
    if "result" in answer:
        return "ok"
    if "id" not in answer or answer["id"] is None:
        return str(response.status_code)
    message = answer["error"]["message"]
    return "denied" if "not found" in message and "esource" in message else f"{response.status_code} {message}"


def first_number(path: Path) -> int:
    """Return the number of the first line of a file."""
    with path.open("rb") as file:
        return int(json.loads(file.readline())["number"])


def compare(server: AuditedServer) -> tuple[list[tuple[str, str]], list[str]]:
    """Return figures about a log, and problems: lines that are lost, doubled or say something else."""
    files = server.files()
    found = verify_files(files)
    problems = list(found.problems)
    seen: Counter[Any] = Counter()
    decisions: dict[int, str] = {}
    missing = refused = 0
    for path in files:
        for line in Path(path).read_bytes().splitlines():
            record = json.loads(line)
            if "missing" in record:
                missing += record["missing"]
            elif record.get("event") == "refused":
                refused += record["code"] == 401
            else:
                seen[record["request"]] += 1
                decisions[record["request"]] = record.get("decision", "allowed")
    problems += [f"request {number} has {count} lines" for number, count in seen.items() if count > 1]
    kinds = Counter(answer for answer in server.answers.values())
    handled = [number for number, answer in server.answers.items() if answer in ("ok", "denied")]
    lost = [number for number in handled if not seen[number]]
    if len(lost) > missing:
        problems.append(f"{len(lost)} handled requests have no line, {missing} are counted as missing: {lost[:5]}")
    recorded = [number for number in handled if seen[number]]
    wrong = [number for number in recorded if (decisions[number] == "denied") != (server.answers[number] == "denied")]
    problems += [f"the line of request {number} has another decision than its response" for number in wrong]
    strange = [kind for kind in kinds if kind not in ("ok", "denied", "503", "404", "unknown")]
    problems += [f"{kinds[kind]} responses are {kind}" for kind in strange]
    if abs(server.unauthorized - refused) > missing:
        problems.append(f"{server.unauthorized} responses with 401, {refused} lines")
    figures = [
        ("responses: allowed, denied, 503", f"{kinds['ok']:,}, {kinds['denied']:,}, {kinds['503']:,}"),
        ("requests whose connection was lost in a restart", f"{kinds['unknown']}"),
        ("lines, in files", f"{found.lines:,}, {len(files)}"),
        ("lines lost, of these counted as missing", f"{len(lost)}, {min(missing, len(lost))}"),
        ("lines doubled, changed or moved", str(sum(count > 1 for count in seen.values()) + len(found.problems))),
        ("policies read, with an error", f"{server.policies}, {server.errors}"),
        ("restarts, renamings by another program", f"{server.starts - 1}, {server.moved}"),
    ]
    return figures, problems


def fill(disk: Path) -> Path:
    """Write a file until the disk is full, and return its path."""
    path = disk / "filler"
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(b"x" * 65536):
            pass
        while file.write(b"x"):
            pass
    return path


async def every(seconds: float, until: float, action: Any) -> None:
    """Call an action at regular times, until the end."""
    while time.monotonic() + seconds < until:
        await asyncio.sleep(seconds)
        await action()


async def soak(servers: list[AuditedServer], disk: Path, minutes: float, rate: float) -> int:
    """Run the servers, their clients and the events, and return how often the disk was full."""
    for server in servers:
        server.write_settings(valid=True)
        await server.start()
    ids = itertools.count(1)
    begun = time.monotonic()
    until = begun + minutes * 60
    full = 0

    async def reload() -> None:
        for server in servers:
            server.write_settings(valid=turn.locked())

    turn = asyncio.Lock()
    """A log that is renamed while its server is stopped begins a new chain, and SIGTERM waits 5 seconds for a disk."""

    async def fill_disk() -> None:
        nonlocal full
        async with turn:
            full += 1
            path = await asyncio.to_thread(fill, disk)
            await asyncio.sleep(FULL_FOR)
            path.unlink()
            await asyncio.sleep(3)

    async def move() -> None:
        async with turn:
            for server in servers:
                server.move()
            await asyncio.sleep(3)

    async def restart() -> None:
        async with turn:
            for server in servers:
                server.write_settings(valid=True)
                await server.stop()
                await server.start()

    async def report() -> None:
        for server in servers:
            kinds = Counter(server.answers.values())
            print(f"{time.monotonic() - begun:6.0f} s  {server.name:8} {dict(kinds)}", file=sys.stderr, flush=True)

    callers = [(user, era) for user in ("ann", "bob") for era in ("2026-07-28", "2025-11-25")]
    pause = len(callers) / rate
    async with asyncio.TaskGroup() as group:
        clients = [
            group.create_task(server.client(user, era, ids, pause)) for server in servers for user, era in callers
        ]
        events = ((RELOAD, reload), (FULL, fill_disk), (MOVE, move), (RESTART, restart), (60.0, report))
        await asyncio.gather(*(every(seconds, until, action) for seconds, action in events))
        await asyncio.sleep(max(0.0, until - time.monotonic()))
        for task in clients:
            task.cancel()
    for server in servers:
        await server.stop()
    return full


def main() -> int:
    """Run the soak; 1 if a line is lost, doubled or wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak.audit", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="how long it takes (60)")
    parser.add_argument("--rate", type=float, default=10.0, help="requests per second for each server (10)")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="carrel-audit-soak-")))
        disk = folder / "disk"
        disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", disk], check=True)
        stack.callback(subprocess.run, ["umount", "--lazy", disk], check=False)
        (folder / "notes").mkdir()
        for name in ("one", "two", "all"):
            (folder / "notes" / f"{name}.md").write_text(f"# {name}\n")
        made = {name: make_token(name) for name in ("ann", "bob")}
        (folder / "tokens.txt").write_text("\n".join(line for _, line in made.values()))
        os.chmod(folder / "tokens.txt", 0o600)
        tokens = {name: token for name, (token, _) in made.items()}
        servers = [AuditedServer(name, name, folder, disk, tokens) for name in ("refuse", "count")]
        begun = time.monotonic()
        full = asyncio.run(soak(servers, disk, options.minutes, options.rate))
        print(f"{(time.monotonic() - begun) / 60:.1f} minutes, the disk was full {full} times for {FULL_FOR:g} s\n")
        results = [compare(server) for server in servers]
        print("| | `refuse` | `count` |\n| --- | ---: | ---: |")
        for (name, one), (_, other) in zip(results[0][0], results[1][0], strict=True):
            print(f"| {name} | {one} | {other} |")
        problems = [problem for _, found in results for problem in found]
        print(*problems[:20], sep="\n", file=sys.stderr)
        if problems:
            print((folder / "refuse.log").read_text()[-2000:], (folder / "count.log").read_text()[-2000:])
        return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
