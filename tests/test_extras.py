"""Optional packages: every one that is missing is named with its extra, whatever is started."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from carrel.cli import COMMANDS
from carrel.extras import MODULES, PACKAGES, explain_missing, find_missing

ROOT = Path(__file__).parent.parent
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
#: Modules that are used where they are there, and replaced where they are not.
REPLACED = {
    "backports.zstd",
    "genai_prices",
    "hiredis",
    "httptools",
    "uvloop",
    "keyring",
    "rich",
    "PIL",
    "typing_extensions",
    "watchfiles",
    "anyio",
}

SERVER = "from carrel import Server\n\napp = Server('books')\n"
PROGRAM = "from mcp.server.fastmcp import FastMCP\n\nmcp = FastMCP('demo')\n"
CLIENT = """
import asyncio

from carrel import Client


async def main() -> None:
    async with Client("http://127.0.0.1:9/mcp") as client:
        await client.list_resources()


asyncio.run(main())
"""
SKILL = "---\nname: one\ndescription: One.\n---\nText\n"
API = 'openapi: 3.0.0\ninfo: {title: x, version: "1"}\nservers: [{url: "http://127.0.0.1:9"}]\npaths: {}\n'
#: What is started: the arguments of ``carrel``, or of Python. PORT is in use, so that a server ends at once.
ENTRIES = """
serve notes
serve notes --http PORT
serve notes --search
serve --skills skills
serve git:repo
serve logs:l.log
serve sqlite:///x.db
serve postgres://127.0.0.1:9/x
serve mysql://127.0.0.1:9/x
serve duckdb:///x.db
serve openapi:api.yaml
serve web+http://127.0.0.1:9/
serve screen:
serve s3://x/y
serve az://x/y
serve sftp://127.0.0.1:9/x
serve webdav://127.0.0.1:9/x
run books.py
run program.py
run --compat program.py
dev books.py
gateway servers.json
gateway servers.json --http PORT
init --force
config show
policy check
token list --file t.txt
audit show l.log
state --state redis://127.0.0.1:9
install claude-desktop notes --dry-run
import --dry-run
login http://127.0.0.1:9/mcp
logout http://127.0.0.1:9/mcp
completion bash
ls http://127.0.0.1:9/mcp
context notes a
studio notes --no-open --port PORT
record http://127.0.0.1:9/mcp new.jsonl
replay r.jsonl --http PORT
chat --model anthropic:x --question hi
chat --model openai:x --question hi
chat --model gemini:x --question hi
python -m carrel.compat program.py
python client.py
python face.py
""".strip().splitlines()
#: What is started without any optional package only: these connect as ``carrel ls`` does.
ALIKE = """
tree http://127.0.0.1:9/mcp
find http://127.0.0.1:9/mcp x
cat http://127.0.0.1:9/mcp x://y
tools http://127.0.0.1:9/mcp
call http://127.0.0.1:9/mcp x
prompt http://127.0.0.1:9/mcp x
skills http://127.0.0.1:9/mcp
watch http://127.0.0.1:9/mcp
info http://127.0.0.1:9/mcp
doctor http://127.0.0.1:9/mcp
""".strip().splitlines()


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    folder = tmp_path_factory.mktemp("extras")
    files = {"books.py": SERVER, "program.py": PROGRAM, "client.py": CLIENT, "notes/a.md": "a", "l.log": "a\n"}
    files |= {"skills/one/SKILL.md": SKILL, "api.yaml": API, "r.jsonl": "", "servers.json": '{"mcpServers": {}}'}
    files |= {"t.txt": "", "carrel.toml": '[access]\n[[sources]]\npath = "notes"\n'}
    files |= {"face.py": "from carrel.compat.mcp.server.fastmcp import FastMCP\n"}
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    subprocess.run(["git", "init", "-q", "repo"], cwd=folder, check=True)
    keys = dict.fromkeys(("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"), "x")
    hosts = ("ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "GOOGLE_GEMINI_BASE_URL")
    home = {"HOME": str(folder), "PYTHONPATH": os.pathsep.join(sys.path)}
    with socket.create_server(("127.0.0.1", 0)) as taken, ThreadingHTTPServer(("127.0.0.1", 0), Unauthorized) as vendor:
        keys |= dict.fromkeys(hosts, f"http://127.0.0.1:{vendor.server_port}")
        threading.Thread(target=vendor.serve_forever, daemon=True).start()
        program = [sys.executable, str(ROOT / "tests/support/blocked_imports.py")]
        with subprocess.Popen(
            program,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
            env={**os.environ, **keys, **home},
        ) as process:
            yield Driver(process, str(taken.getsockname()[1]))
            assert process.stdin is not None
            process.stdin.close()
        vendor.shutdown()


@pytest.fixture(scope="module")
def seen() -> set[tuple[str, ...]]:
    """Return the packages that were tried, each with the module of Carrel that imports it."""
    return set()


class Unauthorized(BaseHTTPRequestHandler):
    """Vendor of language models that rejects every key, so that no test connects to a real one."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b'{"error": {"message": "invalid key"}}'
        self.send_response(401)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class Driver:
    """Program that runs commands in forks of itself, and the port that PORT stands for."""

    def __init__(self, process: subprocess.Popen[str], port: str) -> None:
        self._process, self._port = process, port

    def start(self, entry: str, blocked: Iterable[str] = ()) -> dict[str, Any]:
        """Run an entry without the blocked modules, and return its exit code, output, and the modules it tried."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        arguments = entry.replace("PORT", self._port).split()
        self._process.stdin.write(json.dumps([arguments, list(blocked)]) + "\n")
        self._process.stdin.flush()
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        output = found["output"]
        assert "unrecognized arguments" not in output
        bare = re.search(r"(?m)^(carrel: )?(ModuleNotFound|Import)Error: No module named.*", output)
        assert bare is None, f"without {', '.join(blocked)}: {bare[0] if bare else ''}"
        return found


EXTRA = re.compile(r"carrel\[[a-z0-9]+\]")


@pytest.mark.slow
@pytest.mark.parametrize("entry", [*ENTRIES, *ALIKE])
def test_without_optional_packages_an_entry_works_or_names_an_extra(driver: Driver, entry: str) -> None:
    found = driver.start(entry, [module for modules in MODULES.values() for module in modules])
    if not EXTRA.search(found["output"]) and found["code"] >= 0:
        assert found["code"] == (0 if entry in ALIKE else driver.start(entry)["code"]), found["output"]


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("entry", ENTRIES)
def test_without_one_package_an_entry_works_or_names_its_extra(
    driver: Driver, seen: set[tuple[str, ...]], entry: str
) -> None:
    whole = driver.start(entry)
    # Each place that imports a package is tried without it once, by the first entry that comes by.
    new = {tuple(each) for each in whole["tried"]} - seen
    seen.update(new)
    for module in sorted({module for module, _ in new} - REPLACED):
        found = driver.start(entry, [module])
        if found["code"] != whole["code"] and found["code"] >= 0:
            assert EXTRA.search(found["output"]), f"without {module}: {found['output']}"


def test_every_command_is_started_without_its_packages() -> None:
    assert set(COMMANDS) <= {entry.split()[0] for entry in (*ENTRIES, *ALIKE)}


def test_the_table_of_extras_fits_the_project() -> None:
    for extra, modules in MODULES.items():
        packages = {re.split(r"[><=;\[ ]", package)[0] for package in EXTRAS[extra]}
        for module in modules:
            assert PACKAGES.get(module, module.replace("_", "-")) in packages, (extra, module)
    tabled = {PACKAGES.get(module, module.replace("_", "-")) for modules in MODULES.values() for module in modules}
    needed = {re.split(r"[><=;\[ ]", package)[0] for packages in EXTRAS.values() for package in packages}
    assert needed - tabled - {"carrel", "tzdata"} == set()
    assert not [
        module
        for modules in MODULES.values()
        for module in modules
        if find_spec(module.partition(".")[0]) is None and module != "mss"
    ]


def test_a_package_that_no_extra_installs_is_not_explained() -> None:
    assert explain_missing(ModuleNotFoundError(name="requests")) is None
    hint = "the package google-re2 is missing: pip install 'carrel[logs]'"
    assert explain_missing(ModuleNotFoundError(name="re2")) == hint
    assert find_missing("compat") is None
