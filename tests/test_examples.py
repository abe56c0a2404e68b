"""The examples: each one runs as its first lines say, and does what it is an example of."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from carrel.transports import memory
from support.answering_client import ELICIT, SAMPLE, accepted, answering, said
from support.forking import forked
from support.memory_client import JUNE, LATEST, NOVEMBER

EXAMPLES = Path(__file__).parent.parent / "examples"
PATIENCE = 60


SERVERS = [path for path in sorted(EXAMPLES.glob("*.py")) if not path.stem.startswith(("client", "shop"))]
CLIENTS = [path for path in sorted(EXAMPLES.glob("*.py")) if path.stem.startswith("client")]


@pytest.mark.parametrize("path", SERVERS, ids=lambda path: path.stem)
def test_an_example_says_how_it_is_run_and_answers_on_stdio(path: Path) -> None:
    assert f"\n    python examples/{path.name}" in path.read_text(encoding="utf-8")
    meta = {"io.modelcontextprotocol/protocolVersion": LATEST, "io.modelcontextprotocol/clientCapabilities": {}}
    question = {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": meta}}
    command = forked(sys.executable, str(path))
    done = subprocess.run(command, input=json.dumps(question) + "\n", capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, "")
    (answer,) = map(json.loads, done.stdout.splitlines())
    assert answer["result"]["capabilities"]


#: What the examples of clients print, as patterns of whole lines that come in this order; more may be between them.
PRINTED = {
    "client": [
        f"desk speaks {LATEST}",
        "resource note://lamp \\(image/png\\): lamp",
        "note://lamp has 6 bytes",
        "tool count_notes: Count the notes on the desk.",
        "count_notes returned: 2",
    ],
    "client_asking": [
        r"club \(in memory\) asks: Who would like to join\?",
        r".*please type a number",
        r"club \(in memory\) wants you to visit a page of club\.example: Please pay the fee\.",
        r"  https://club\.example/pay\?member=1",
        r".*Ada joins for writing\. Thank you!",
    ],
    "client_authorized": [
        r"without a token: http://127\.0\.0\.1:\d+/mcp requires authorization \(401\).*",
        "with a token: alice",
    ],
    "client_cache": [
        r"soup \(the cook was asked 1 times\)",
        r"soup, bread \(the cook was asked 2 times\)",
        "2 answers from the cache, 2 from the server",
    ],
    "client_skills": [
        "meeting-notes: Turn the transcript.*",
        r"  skill://meeting-notes/templates/minutes\.md \(199 bytes\)",
        r".*Instructions of skill://meeting-notes/SKILL\.md, \d+ characters\. They begin with:",
        "  skill://meeting-notes/templates",
        r"templates/minutes\.md, which they speak of, has \d+ characters",
    ],
    "client_sync": [
        "note://lamp: Buy a lamp",
        "tools: add, buy",
        r"model: 42 The user does not want to buy a lamp\.",
    ],
    "client_tasks": ["followed: completed", "followed: 3 loaves of bread"],
    "client_tools_for_a_model": [
        '    "name": "s2__look_up_entry",',
        r"s1__look_up.*Paris.* failed: Only the weather of Vienna is known here\.",
        r"s1__look_up.*Vienna.* said: Rain, 12 degrees\.",
        r"s2__look_up_entry.* said: It rained\.",
        "s2__burn.* failed: There is no tool s2__burn.",
    ],
    "client_watch": ["kettle://degrees: 20 degrees", "kettle://degrees: 100 degrees", "kettle://sign: Tea time!"],
}
TYPED = {"client_asking": "Ada\nmany\n36\nwriting\n\nyes\nyes\n", "client_skills": "yes\n"}


def run_example(
    name: str, *arguments: str, typed: str = "", start: Callable[..., list[str]] = forked
) -> subprocess.CompletedProcess[str]:
    """Run an example; what opens a browser opens nothing."""
    return subprocess.run(
        start(sys.executable, str(EXAMPLES / f"{name}.py"), *arguments),
        input=typed,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={**os.environ, "BROWSER": "true", "PYTHONUTF8": "1"},
    )


def strictly(python: str, *arguments: str) -> list[str]:
    """Return the command of a new process, in which warnings are errors."""
    return [python, "-W", "error", *arguments]


def test_every_example_of_a_client_is_run_here() -> None:
    assert set(PRINTED) == {path.stem for path in CLIENTS}


@pytest.mark.parametrize("name", sorted(PRINTED))
def test_a_client_says_how_it_is_run_and_prints_what_it_is_an_example_of(name: str) -> None:
    assert f"\n    python examples/{name}.py\n" in (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    done = run_example(name, typed=TYPED.get(name, ""), start=strictly)
    assert (done.returncode, done.stderr) == (0, "")
    lines = iter(done.stdout.splitlines())
    for pattern in PRINTED[name]:
        assert any(re.fullmatch(pattern, line) for line in lines), (pattern, done.stdout)


def test_a_task_is_found_again_and_another_one_cancelled() -> None:
    out = run_example("client_tasks").stdout
    assert "found again: 1 loaves of bread\n" in out
    assert "cancelled: the task was cancelled" in out


def test_nothing_is_sent_when_the_form_is_declined() -> None:
    assert run_example("client_asking", typed="Ada\n36\n\n\nno\n").stdout.endswith("Nobody joined.\n")
    assert run_example("client_asking").stdout.endswith("Nobody joined.\n")


def test_a_skill_is_not_loaded_when_the_user_says_no() -> None:
    assert "Instructions" not in run_example("client_skills", typed="no\n").stdout


def test_the_terminal_answers_what_another_example_asks() -> None:
    server = (sys.executable, str(EXAMPLES / "asking.py"))
    done = run_example("client_asking", "reserve", '{"evening": "Friday"}', *server, typed="Ada\n3\nvegan\nyes\nyes\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Welcome, Ada! Your table is number" in done.stdout


def test_the_client_looks_around_at_any_server_and_says_when_there_is_none() -> None:
    done = run_example("client", sys.executable, str(EXAMPLES / "resources.py"))
    assert (done.returncode, done.stderr) == (0, "")
    assert "template almanac://days/{day}{?style}: A day" in done.stdout
    failed = run_example("client", "no-such-program")
    assert failed.returncode == 1
    assert failed.stderr.startswith("The program 'no-such-program' does not exist")


async def test_what_the_page_on_asking_shows_is_so(monkeypatch: pytest.MonkeyPatch) -> None:
    page = (EXAMPLES.parent / "docs" / "elicitation.md").read_text(encoding="utf-8")
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


async def test_resources_are_read_and_complete_themselves() -> None:
    app = runpy.run_path(str(EXAMPLES / "resources.py"), run_name="example")["app"]
    async with memory.connect(app) as peer:
        read = await peer.request("resources/read", {"uri": "almanac://days/2024-02-29?style=long"})
        assert read["result"]["contents"][0]["text"] == "Thursday, day 060 of 2024"
        assert read["result"]["ttlMs"] == 3_600_000
        refused = await peer.request("resources/read", {"uri": "almanac://days/tomorrow"})
        assert refused["error"]["code"] == -32602
        reference = {"type": "ref/resource", "uri": "almanac://days/{day}{?style}"}
        params = {"ref": reference, "argument": {"name": "style", "value": "l"}}
        completed = await peer.request("completion/complete", params)
        assert completed["result"]["completion"]["values"] == ["long"]


async def test_tools_give_structured_results_and_failures_to_learn_from() -> None:
    app = runpy.run_path(str(EXAMPLES / "tools.py"), run_name="example")["app"]
    async with memory.connect(app) as peer:
        arguments = {"plank": {"length": 2}, "piece": 0.6}
        planned = await peer.request("tools/call", {"name": "plan", "arguments": arguments})
        assert planned["result"]["structuredContent"] == {"pieces": 3, "rest": 0.2}
        failed = await peer.request("tools/call", {"name": "plan", "arguments": {**arguments, "piece": 3}})
        assert failed["result"]["isError"]
        assert "ask for shorter pieces" in failed["result"]["content"][0]["text"]
        await peer.request("tools/call", {"name": "saw", "arguments": {"pieces": 2}, "_meta": {"progressToken": 1}})
        assert [(await peer.notification())["params"]["progress"] for _ in range(2)] == [1, 2]


async def test_a_prompt_links_what_it_is_about() -> None:
    app = runpy.run_path(str(EXAMPLES / "prompts.py"), run_name="example")["app"]
    async with memory.connect(app) as peer:
        got = await peer.request("prompts/get", {"name": "proofread", "arguments": {"uri": "a:b", "language": "中文"}})
        assert [message["content"]["type"] for message in got["result"]["messages"]] == ["text", "resource_link"]


async def test_live_resources_are_heard_of() -> None:
    app = runpy.run_path(str(EXAMPLES / "live.py"), run_name="example")["app"]
    async with memory.connect(app) as peer:
        peer.start("subscriptions/listen", {"notifications": {"resourceSubscriptions": ["clock://seconds"]}})
        await peer.notification()
        assert (await peer.notification(timeout=PATIENCE))["params"]["uri"] == "clock://seconds"


async def test_bread_is_a_task_for_those_who_know_tasks() -> None:
    app = runpy.run_path(str(EXAMPLES / "tasks.py"), run_name="example")["app"]
    call = {"name": "bake", "arguments": {"loaves": 2}}
    async with memory.connect(app) as peer:
        assert (await peer.request("tools/call", call))["result"]["content"][0]["text"] == "2 loaves of bread"
    async with memory.connect(app, NOVEMBER) as peer:
        task = (await peer.request("tools/call", {**call, "task": {}}))["result"]["task"]
        done = await peer.request("tasks/result", {"taskId": task["taskId"]})
        assert done["result"]["content"][0]["text"] == "2 loaves of bread"


async def test_the_mounted_server_answers_within_the_application() -> None:
    site = runpy.run_path(str(EXAMPLES / "mounted.py"), run_name="example")["make_site"]()
    transport = httpx2.ASGITransport(site)
    async with site.router.lifespan_context(site), httpx2.AsyncClient(transport=transport) as client:
        client.base_url = "http://localhost"
        assert (await client.get("/")).text == "The endpoint is /mcp"
        opening = {"protocolVersion": JUNE, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": opening}
        assert (await client.post("/mcp/", json=message)).json()["result"]["serverInfo"]["name"] == "mounted"


async def test_on_stdio_the_user_who_starts_the_process_is_trusted() -> None:
    app = runpy.run_path(str(EXAMPLES / "authorized.py"), run_name="example")["app"]
    async with memory.connect(app) as peer:
        answer = await peer.request("tools/call", {"name": "whoami"})
        assert answer["result"]["content"][0]["text"] == "somebody on this machine"
