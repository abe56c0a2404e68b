"""``carrel token``: the file of tokens that a server reads."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from carrel.cli import main
from carrel.security import StaticTokens


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "carrel.toml").write_text('[auth]\ntokens = "tokens.txt"\n')
    return tmp_path


def add(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["token", "add", *arguments]) == 0
    printed = capsys.readouterr()
    assert printed.out.strip() not in printed.err
    return printed.out.strip()


async def test_a_token_is_added_to_the_file_of_the_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    alice, bob = add(capsys, "alice", "a", "b"), add(capsys, "bob")
    text = Path("tokens.txt").read_text()
    assert alice not in text
    assert bob not in text
    assert stat.S_IMODE(Path("tokens.txt").stat().st_mode) == 0o600
    tokens = StaticTokens("tokens.txt")
    principal = await tokens.verify(alice)
    assert (principal.subject, principal.scopes) == ("alice", {"a", "b"})
    assert (await tokens.verify(bob)).subject == "bob"


def test_tokens_are_listed_and_removed(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("alice", "bob", "alice"):
        add(capsys, name, "a")
    lines = Path("tokens.txt").read_text()
    Path("tokens.txt").write_text(f"# a note\n{lines}")
    assert main(["token", "list"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in listed] == [["alice", "a"], ["bob", "a"], ["alice", "a"]]
    assert main(["token", "remove", "alice"]) == 0
    assert "removed 2 of alice" in capsys.readouterr().err
    remaining = Path("tokens.txt").read_text().splitlines()
    assert remaining[0] == "# a note"
    assert [line.split()[1] for line in remaining[1:]] == ["bob"]
    assert main(["token", "remove", "alice"]) == 1
    assert "has no token of alice" in capsys.readouterr().err


def test_a_file_can_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    add(capsys, "ci", "--file", "others.txt")
    assert Path("others.txt").exists()
    assert not Path("tokens.txt").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("add",), "usage: carrel token add NAME [SCOPE ...]"),
        (("remove",), "usage: carrel token remove NAME"),
        (("list", "alice"), "usage: carrel token list"),
        (("remove", "alice", "a"), "scopes are for carrel token add"),
        (("list",), "No such file or directory; carrel token add NAME makes it"),
        (("add", "a b"), "cannot be a name"),
        (("add", "a#b"), "cannot be a name"),
        (("add", "alice", 'x"y'), "scope"),
        (("add", "alice", "offline_access"), "offline_access"),
        (("add", "alice", "a#b"), "without #"),
        (("add", "alice", "--file", "missing/tokens.txt"), "tokens cannot be written to"),
    ],
)
def test_wrong_use_is_one_line_and_writes_nothing(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    assert main(["token", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not Path("tokens.txt").exists()


def test_without_a_file_the_message_says_where_to_name_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "carrel.toml").unlink()
    assert main(["token", "list"]) == 2
    assert "name one with --file, or with tokens in [auth]" in capsys.readouterr().err
