"""docs/architecture.md: its files, functions and layers are those of the source."""

from __future__ import annotations

import ast
import re
import sys
import threading
import tomllib
from functools import cache
from pathlib import Path
from types import FrameType

import msgspec

from carrel import Server
from carrel.protocol.methods import READ_RESOURCE
from carrel.protocol.revisions import LATEST
from carrel.transports.server.stdio import Stdio

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "carrel"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
#: Code such as `server/dispatch.py:Dispatch.answer`, `server/telemetry.py` or `transports/client/`.
NAMES = sorted(set(re.findall(r"`([a-z_]+(?:/[a-z_0-9]+)*(?:/|\.py)(?::[A-Za-z_.]+)?)`", PAGE)))


@cache
def names_in(path: Path) -> frozenset[str]:
    """The names that a module defines: its functions, classes and constants, and those of its classes."""
    names: set[str] = set()

    def add(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names.add(prefix + node.name)
                if isinstance(node, ast.ClassDef):
                    add(node.body, f"{prefix}{node.name}.")
            elif isinstance(node, ast.Assign):
                names.update(prefix + target.id for target in node.targets if isinstance(target, ast.Name))
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                names.add(prefix + node.target.id)

    add(ast.parse(path.read_text(encoding="utf-8")).body, "")
    return frozenset(names)


def test_each_file_and_function_on_the_page_exists() -> None:
    for name in NAMES:
        file, _, function = name.partition(":")
        path = SOURCE / file
        assert path.is_file() if path.suffix else path.is_dir(), f"there is no {path}"
        assert not function or function in names_in(path), name


def test_the_page_names_files_and_functions() -> None:
    assert sum(":" in name for name in NAMES) > 50


def test_the_layers_on_the_page_are_those_that_are_enforced() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    enforced = [sorted(re.findall(r"carrel\.(\w+)", layer)) for layer in layers]
    table = PAGE.partition("| --- | --- |\n")[2].partition("\n\n")[0].splitlines()
    assert [sorted(re.findall(r"`(\w+)(?:/|\.py)`", line)) for line in table] == enforced


class Output:
    """Standard output of a server: keeps what is written to it."""

    def __init__(self) -> None:
        self.written = b""

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        pass


def functions_under(*headings: str) -> set[str]:
    """The functions and methods that sections of the page name, without classes and constants."""
    sections = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    text = "".join(section for section in sections if section.partition("\n")[0].strip("`") in headings)
    assert text
    found = re.findall(r"`([a-z_/]+\.py):((?:[A-Za-z_]+\.)?_*[a-z][A-Za-z_]*)`", text)
    return {f"{file}:{function}" for file, function in found if function != "Provider.read_resource"}


async def test_reads_over_stdio_pass_the_functions_on_the_page(tmp_path: Path) -> None:
    passed: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(SOURCE)):
            file = Path(frame.f_code.co_filename).relative_to(SOURCE).as_posix()
            passed.add(f"{file}:{frame.f_code.co_qualname}")

    (tmp_path / "readme.txt").write_text("A file.")
    app = Server("library")
    app.resources.add("book://lem/solaris", "An ocean that thinks.")
    app.add_provider(str(tmp_path))

    @app.resource("book://{author}/{title}")
    def book(author: str, title: str) -> str:
        return f"{title} by {author}"

    meta = {
        "io.modelcontextprotocol/protocolVersion": LATEST.name,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    uris = ["book://lem/solaris", "book://lem/eden", (tmp_path / "readme.txt").as_uri()]
    requests = [
        {"jsonrpc": "2.0", "id": id, "method": READ_RESOURCE.method, "params": {"uri": uri, "_meta": meta}}
        for id, uri in enumerate(uris)
    ]
    output = Output()
    threading.setprofile(note)
    try:
        await app.endpoint.start()
        stdio = Stdio(app.endpoint)
        stdio.open(output)
        sys.setprofile(note)
        stdio.data_received(b"".join(msgspec.json.encode(request) + b"\n" for request in requests))
        await stdio.close(grace=10)
        await app.endpoint.stop()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    texts = {
        response["id"]: response["result"]["contents"][0]["text"]
        for response in map(msgspec.json.decode, output.written.splitlines())
    }
    assert texts == {0: "An ocean that thinks.", 1: "eden by lem", 2: "A file."}
    assert functions_under("resources/read` over stdio", "Three resources") - passed == set()
