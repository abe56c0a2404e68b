"""The measures of ``make compat``: they find programs and imports, and notice what differs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from compat.measures import suites, summary
from compat.measures.comparing import differences, normal, reason, start_reason
from compat.measures.examples import judged, programs
from compat.measures.probe import LEGACY, MODERN, NoAnswer, probe
from compat.measures.report import Result
from compat.measures.snippets import blocks, imports_of
from support.carrel_process import COMMAND

SERVER = """
from carrel import Context, Server

app = Server("small")


@app.tool
async def ask(question: str, context: Context) -> str:
    found = await context.sample(question, 10)
    return found.text


@app.resource("note://a")
def note() -> str:
    return "a note"
"""


@pytest.mark.slow
@pytest.mark.parametrize("revision", [LEGACY, MODERN])
def test_the_probe_lists_calls_and_answers_requests_of_the_server(tmp_path: Path, revision: str) -> None:
    (tmp_path / "small.py").write_text(SERVER)
    found = probe([*COMMAND, "run", str(tmp_path / "small.py")], revision=revision)
    assert [tool["name"] for tool in found["tools/list"]["result"]["tools"]] == ["ask"]
    assert found["read note://a"]["result"]["contents"][0]["text"] == "a note"
    answer = found['call ask {"question": "UTC-text"}']["result"]
    assert "an answer to 1, at most 10" in answer["content"][0]["text"]
    assert found["read none://such"]["error"]["code"] < 0
    assert found.seconds > 0


@pytest.mark.slow
def test_the_probe_says_why_a_server_does_not_start() -> None:
    with pytest.raises(NoAnswer, match="the server ended") as caught:
        probe([*COMMAND, "run", "none.py"])
    assert start_reason(caught.value.errors).startswith("no such file: none.py")


def test_programs_are_files_that_mention_servers_and_packages_that_run(tmp_path: Path) -> None:
    package = tmp_path / "examples" / "pack"
    package.mkdir(parents=True)
    for name, code in {"__main__": "", "__init__": "FastMCP", "server": "FastMCP"}.items():
        (package / f"{name}.py").write_text(code)
    (tmp_path / "examples" / "one.py").write_text("mcp = FastMCP('one')")
    (tmp_path / "examples" / "none.py").write_text("print(1)")
    found = programs(tmp_path, ["examples"])
    assert [each.arguments for each in found] == [("-m", "pack"), (str(tmp_path / "examples" / "one.py"),)]


def test_a_difference_counts_unless_the_original_differs_from_itself() -> None:
    expected = {"tools/list": {"result": {"tools": [{"name": "a"}]}}, "call a": {"result": {"time": 1}}}
    found = {"tools/list": {"result": {"tools": [{"name": "a"}]}}, "call a": {"result": {"time": 2}}}
    row = judged({"answers": expected, "varying": []}, found)
    assert (row["lists"], row["answers"], row["same"], row["all"]) == (True, False, 1, 2)
    assert row["reasons"] == ["call result/time: another value"]
    row = judged({"answers": expected, "varying": [["call a", "result", "time"]]}, found)
    assert (row["answers"], row["same"], row["reasons"]) == (True, 2, [])


def test_a_missing_member_and_another_type_are_differences() -> None:
    assert [path for path, *_ in differences({"a": None, "b": 1}, {"b": True})] == [("a",), ("b",)]
    assert [reason(*each) for each in differences({"t": {"a": {}}}, {"t": {}})] == ["t a: missing or another type"]


def test_addresses_and_versions_of_servers_do_not_count() -> None:
    def answers(version: str, text: str) -> dict[str, object]:
        meta = {"io.modelcontextprotocol/serverInfo": {"name": "a", "version": version}}
        return {"initialize": {"result": {"serverInfo": {"version": version}}}, "x": {"_meta": meta, "text": text}}

    assert normal(answers("1", "<f at 0x7f>")) == normal(answers("2", "<f at 0x80>"))
    assert normal(answers("1", "a")) != normal(answers("1", "b"))


def test_snippets_are_python_blocks_and_their_imports_of_the_packages(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(
        "```python\nimport mcp.types\nfrom fastmcp import A, B\nimport os\n```\n```sh\nx\n```\n"
    )
    (tmp_path / "docs" / "v2").mkdir(parents=True)
    (tmp_path / "docs" / "v2" / "old.mdx").write_text("```python\nimport mcp\n```\n")
    assert [(name, imports_of(code)) for name, code in blocks(tmp_path)] == [
        ("README.md#1", ["from fastmcp import A", "from fastmcp import B", "import mcp.types"])
    ]
    assert imports_of("def broken(:") == []


def test_tests_of_internals_are_left_out_with_a_reason(tmp_path: Path) -> None:
    file = tmp_path / "test_a.py"
    file.write_text("from mcp.server._private import x\n")
    assert suites.left_out(file, "tests/server/test_a.py", suites.LEFT_OUT["mcp"]) == (
        "private modules or names of the package"
    )
    file.write_text("from mcp.server import x\n")
    assert suites.left_out(file, "tests/server/test_a.py", suites.LEFT_OUT["mcp"]) is None
    assert "command" in str(suites.left_out(file, "tests/cli/test_a.py", suites.LEFT_OUT["mcp"]))


def test_failures_are_grouped_by_reason_the_most_frequent_first() -> None:
    result = Result("Title", ("a", "b"), [("x|y", 1)], [("one", "rare"), ("two", "often"), ("three", "often")])
    text = result.markdown()
    assert "| x\\|y | 1 |" in text
    assert text.index("| 2 | `often` | two, three |") < text.index("| 1 | `rare` | one |")


def test_pages_show_the_counts_and_the_reasons_of_a_measure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(summary, "RESULTS", tmp_path)
    monkeypatch.setattr(summary, "PAGES", [page := tmp_path / "page.md"])
    failures = [
        ("tests/a.py::test_a[trio]", "no loop"),
        ("tests/a.py::test_b", "name '_x'"),
        ("tests/a.py::test_c", "y"),
    ]
    lines = [("all", 9, 6), ("of these, tasks", 3, 1), ("tests/a.py", 9, 6), ("left out: 2 files: WebSocket", "", "")]
    summary.keep("suite-mcp-1.30.0", Result("Own tests", ("files", "original", "Carrel"), lines, failures))
    marks = [
        "counts suite-mcp-1.30.0",
        "reasons suite-mcp-1.30.0",
        "reasons suite-mcp-1.30.0 suite-none",
        "failures suite-mcp-1.30.0",
        "failures suite-mcp-1.30.0 suite-none",
        "omitted suite-mcp-1.30.0",
        "lines start",
    ]
    page.write_text("".join(f"<!-- measured: {mark} -->\nold\n<!-- end -->\n" for mark in marks))
    summary.write()
    text = page.read_text()
    summary.write()
    assert page.read_text() == text
    assert "| `suite-mcp-1.30.0`: own tests that pass | 9 | 6 (66 %) | 20" in text
    assert "| `suite-mcp-1.30.0`: of these, tasks | 3 | 1 (33 %) | 20" in text
    assert text.index("| 1 | trio | asyncio |") < text.index("| 1 | other behaviour |  |")
    assert "| 1 | private names, or replaced ones |  |" in text
    assert "| mcp-1.30.0 | 2 files: WebSocket |" in text
    assert text.count("| 1 | `name '_x'` | tests/a.py::test_b |") == 1
    assert text.count("old") == 3, "a measure without a result changes nothing, and neither do reasons without it"


def test_the_counts_of_other_measures_stay_with_their_dates(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(summary, "RESULTS", tmp_path)
    monkeypatch.setattr(summary, "PAGES", [page := tmp_path / "page.md"])
    old = "| `snippets-a`: snippets | 5 | 4 | 2026-01-01 |\n", "| `snippets-b`: snippets | 3 | 2 | 2026-01-02 |\n"
    page.write_text(f"<!-- measured: counts snippets-a snippets-b snippets-c -->\n{''.join(old)}<!-- end -->\n")
    summary.keep("snippets-a", Result("", (), [(7, 6, 5)]))
    summary.write()
    lines = page.read_text().splitlines()
    assert lines[2] == "| measure | on the original | on Carrel | date |"
    assert lines[4].startswith("| `snippets-a`: snippets whose imports resolve | 6 | 5 | 20")
    assert lines[5] + "\n" == old[1]
    assert len(lines) == 8


def test_programs_and_snippets_are_counted_in_one_line_for_each_revision() -> None:
    programs = Result(
        "", (), [("serve on stdio", LEGACY, 5, 4, 3, 2, "9 / 9"), ("end by themselves", "", 2, 2, "", 1, "")]
    )
    found = summary.merged("examples-a", programs, "") + summary.merged("snippets-a", Result("", (), [(7, 6, 5)]), "")
    assert "| 5 | 4 start, 3 have the same lists, 2 give the same answers |" in found
    assert "| 2 | 2 start, 1 the same |" in found
    assert "| `snippets-a`: snippets whose imports resolve | 6 | 5 |" in found


def test_tests_of_authorization_and_of_tasks_are_counted_by_themselves() -> None:
    names = [
        "tests/server/auth/test_a.py::test_b",
        "tests/experimental/test_c.py::test_d",
        "tests/test_e.py::test_auth",
    ]
    expected = dict.fromkeys(names, ("passed", "")) | {"tests/test_f.py::test_g": ("failed", "")}
    result = Result("", (), failures=[(names[1], "why")])
    assert suites.parts(expected, result) == [
        ("of these, authorization", 1, 1),
        ("of these, tasks", 1, 0),
        ("of these, everything else", 1, 1),
    ]


@pytest.mark.slow
def test_a_test_that_ignores_its_timeout_ends_its_worker_and_the_other_tests_run(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_it.py").write_text(
        "import threading\nimport pytest\n@pytest.fixture\ndef stuck():\n    yield\n    while True:\n        try:\n"
        "            threading.Event().wait()\n        except BaseException:\n            pass\n"
        "def test_first(stuck):\n    assert False\ndef test_second():\n    pass\n"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(suites.__file__).parent), "MEASURE_SECONDS": "5"}
    env |= {"MEASURE_NOTES": str(tmp_path / "notes"), "MEASURE_ERRORS": str(tmp_path / "errors")}
    env.pop("PYTEST_ADDOPTS", None)
    env["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # other plugins take most of the time
    command = [sys.executable, "-m", "pytest", "-p", "suite_plugin", "-p", "xdist", "-p", "pytest_timeout"]
    command += ["-n", "1", "--timeout", "1", "tests"]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    found = json.loads((tmp_path / "notes").read_text())
    outcomes = {name.partition("::")[2]: outcome for name, (outcome, _) in found.items()}
    assert outcomes == {"test_first": "failed", "test_second": "passed"}, done.stdout
