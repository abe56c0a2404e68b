"""Servers written for ``mcp`` 1.x: they list and answer the same on Carrel as on the original."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from compat.comparison import HERE, compare, on_carrel, on_original, run

pytestmark = pytest.mark.slow

PROGRAMS = HERE / "programs"


def test_a_low_level_server_answers_the_same() -> None:
    answers = compare([str(PROGRAMS / "low.py")], {"tools": [["add", {"a": "1"}]]})
    assert answers['call add {"a": 1}']["content"][0]["text"] == "2"
    assert answers["call add {}"]["content"][0]["text"] == "Input validation error: 'a' is a required property"


def test_a_fastmcp_server_answers_the_same() -> None:
    plan = {
        "tools": [
            ["add", {"a": "5", "b": "6"}],
            ["add", {"a": 1, "zz": 3}],
            ["ctxt", {"x": "h"}],
            ["user", {"user": '{"name": "m"}', "opts": '{"a": true}'}],
            ["lst", {"items": '["a"]'}],
            ["opt", {"json": "j", "schema": 3, "mode": "c"}],
            ["untyped", {"a": [1]}],
        ],
        "form": {"date": "today", "n": 3},
        "read": ["user://bob/7", "user://bob/x"],
    }
    answers = compare([str(PROGRAMS / "fast.py")], plan)
    assert answers["call ask {}"]["content"][0]["text"] == "accept date='today' n=3"
    assert len(answers["tools"]["tools"]) > 15


def test_a_server_of_files_answers_the_same_to_a_client_of_either_kind(tmp_path: Path) -> None:
    (tmp_path / "糖尿病.txt").write_text("关于糖尿病", encoding="utf-8")
    (tmp_path / "heart.txt").write_text("On hearts", encoding="utf-8")
    server = [str(PROGRAMS / "medical_server.py"), str(tmp_path)]
    compare(server)
    client = str(PROGRAMS / "medical_client.py")
    expected = run(on_original([client, *on_original(server)]))
    assert "关于糖尿病" in expected
    assert run(on_carrel([client, *on_original(server)])) == expected
    assert run(on_original([client, *on_carrel(server)])) == expected
    assert run(on_carrel([client, *on_carrel(server)])) == expected


@pytest.mark.parametrize(
    ("module", "plan"),
    [
        ("mcp_server_time", {"tools": [["get_current_time", {"timezone": "Nowhere"}]], "skip": ["get_current_time"]}),
        ("mcp_server_fetch", {"tools": [["fetch", {"url": "http://127.0.0.1:9/"}]]}),
    ],
)
def test_an_installed_server_answers_the_same(module: str, plan: dict[str, object]) -> None:
    compare(["-m", module], plan)


def test_the_installed_server_of_git_repositories_answers_the_same(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        who = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-b", "main")
    (tmp_path / "a.txt").write_text("one\n")
    git("add", "a.txt")
    git("commit", "-m", "first")
    (tmp_path / "a.txt").write_text("two\n")
    repository = {"repo_path": str(tmp_path)}
    names = ["git_status", "git_diff_unstaged", "git_log", "git_branch"]
    calls = [[name, repository | ({"branch_type": "local"} if name == "git_branch" else {})] for name in names]
    answers = compare(["-m", "mcp_server_git", "--repository", str(tmp_path)], {"tools": calls})
    assert "first" in str(answers)
