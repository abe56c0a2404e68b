"""The examples: each one runs as its first lines say, and does what it is an example of."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from server.answering import ELICIT, SAMPLE, accepted, answering, said
from server.asking import JUNE, LATEST, NOVEMBER

EXAMPLES = Path(__file__).parent.parent / "examples"
PATIENCE = 20


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_an_example_says_how_it_is_run_and_answers_on_stdio(path: Path) -> None:
    assert f"\n    python examples/{path.name}" in path.read_text(encoding="utf-8")
    meta = {"io.modelcontextprotocol/protocolVersion": LATEST, "io.modelcontextprotocol/clientCapabilities": {}}
    question = {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": meta}}
    done = subprocess.run(
        [sys.executable, str(path)], input=json.dumps(question) + "\n", capture_output=True, text=True, timeout=PATIENCE
    )
    assert (done.returncode, done.stderr) == (0, "")
    (answer,) = map(json.loads, done.stdout.splitlines())
    assert answer["result"]["capabilities"]


async def test_what_the_page_on_asking_shows_is_so(monkeypatch: pytest.MonkeyPatch) -> None:
    page = (EXAMPLES.parent / "docs" / "asking.md").read_text(encoding="utf-8")
    first, *_, keys, last = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    module = types.ModuleType("kitchen")
    monkeypatch.setitem(sys.modules, "kitchen", module)
    exec(compile(first, "kitchen", "exec"), module.__dict__)
    exec(compile(last, "kitchen", "exec"), module.__dict__)
    await module.test_reserve()
    monkeypatch.setenv("STATE_KEYS", f"{'00' * 32},{'ff' * 32}")
    exec(compile(keys, "kitchen", "exec"), module.__dict__)


@pytest.mark.parametrize("revision", [JUNE, NOVEMBER, LATEST])
@pytest.mark.parametrize(("model", "greeting"), [({"sampling": {}}, "Good evening."), ({}, "Welcome, Ada!")])
async def test_asking_reserves_one_table_once_it_knows_for_whom(
    model: dict[str, Any], greeting: str, revision: str
) -> None:
    example = runpy.run_path(str(EXAMPLES / "asking.py"), run_name="asking_example")

    def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method == SAMPLE:
            return said("Good evening.")
        return accepted(name="Ada", diet="vegan") if params["message"].startswith("A table on") else accepted()

    async with answering(example["app"], revision, answer, elicitation={}, **model) as client:
        text = await client.text("reserve", evening="Friday")
        assert [method for method, _ in client.asked] == [ELICIT, ELICIT, *([SAMPLE] if model else [])]
        assert "for 2 on Friday, vegan" in client.asked[1][1]["message"]
        ((table, name),) = example["booked"].items()
        assert name == "Ada"
        assert text == f"{greeting} Your table is number {table}."


@pytest.mark.parametrize("revision", [JUNE, NOVEMBER, LATEST])
@pytest.mark.parametrize("refused", [0, 1])
async def test_asking_reserves_nothing_without_the_consent_of_its_user(refused: int, revision: str) -> None:
    example = runpy.run_path(str(EXAMPLES / "asking.py"), run_name="asking_example")
    answers = iter([accepted(name="Ada"), {"action": "decline"}] if refused else [{"action": "cancel"}])
    async with answering(example["app"], revision, lambda method, params: next(answers), elicitation={}) as client:
        assert await client.text("reserve", evening="Friday") == "Nothing was reserved."
    assert example["booked"] == {}
