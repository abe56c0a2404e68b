"""Hostile messages: text that patterns and schemas of the author are to work at for ever."""

from __future__ import annotations

from pathlib import Path

from support.measured_server import under_attack

SERVER = """
import sys
from typing import Annotated
import pydantic
from msgspec import Meta
from carrel import Server

app = Server("patterns")
app.resources.add("memo://1", "small")
TREE = {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/tree"}},
                  {"type": "array", "items": {"$ref": "#/$defs/tree"}, "minItems": 0}, {"type": "string"}]}

@app.tool(input_schema={"type": "object", "$defs": {"tree": TREE}, "properties": {
    "text": {"pattern": "^(a+)+$"}, "tree": {"$ref": "#/$defs/tree"}}})
def given(**arguments): return "given"

@app.tool()
def short(text: Annotated[str, Meta(pattern="^[^@]+@[^@]+[.][^@]+$", max_length=200)]) -> str: return "short"

@app.tool()
def plain(text: Annotated[str, Meta(pattern="^[a-z]+(-[a-z]+)*$")]) -> str: return "plain"

@app.tool()
def rust(text: Annotated[str, pydantic.Field(pattern="^(a+)+$")]) -> str: return "rust"

app.run("http", port=0, on_started=lambda url: print(url, file=sys.stderr, flush=True))
"""


def test_hostile_text_and_values_do_not_stop_a_server_with_patterns_and_recursive_schemas(tmp_path: Path) -> None:
    script = tmp_path / "server.py"
    script.write_text(SERVER)
    tree: object = 0
    for _ in range(150):
        tree = [tree]
    text = "a" * 300_000
    with under_attack(script=script) as server, server.honest_reads("memo://1") as reads:
        for name in ("given", "plain", "rust"):
            answer = server.ask("tools/call", name=name, arguments={"text": text + "!"})
            assert answer["result"]["isError"] is True, name
            answer = server.ask("tools/call", name=name, arguments={"text": text})
            assert answer["result"]["content"][0]["text"] == name
        assert server.ask("tools/call", name="short", arguments={"text": "." * 199 + "!"})["result"]["isError"] is True
        assert server.ask("tools/call", name="short", arguments={"text": text})["result"]["isError"] is True
        assert server.ask("tools/call", name="given", arguments={"tree": tree})["result"]["isError"] is True
        reads.check()
        assert server.rss() < 300
