"""``carrel policy``: problems of a policy, explained decisions, expectations, and differences of two policies."""

from __future__ import annotations

from pathlib import Path

import pytest

from carrel.cli import main
from carrel.errors import ConfigError
from carrel.uri.parse import file_uri

POLICY = """\
[[sources]]
path = "notes"

[access.roles]
viewer = {{ scope = "read" }}
local = {{ local = true }}

[[access.rules]]
role = "viewer"
allow = "read"
resources = "{notes}/{{claim.team}}/**"

[[access.rules]]
role = "*"
deny = "all"
resources = "{notes}/**/draft-*"
"""


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """URI of a shared folder with notes of two teams; ./carrel.toml has a policy."""
    monkeypatch.chdir(tmp_path)
    for name in ("blue/a.md", "blue/draft-1.md", "green/b.md"):
        (tmp_path / "notes" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "notes" / name).write_text("text")
    found = file_uri(tmp_path / "notes")
    (tmp_path / "carrel.toml").write_text(POLICY.format(notes=found))
    return found


def policy(*arguments: str) -> int:
    return main(["policy", *arguments])


def append(text: str, file: str = "carrel.toml") -> None:
    with Path(file).open("a") as stream:
        stream.write(text)


def test_a_policy_without_problems(notes: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert policy("check") == 0
    assert capsys.readouterr().out == "carrel.toml: 2 rules, no problems\n"


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ('role = "vewer"\nallow = "read"', "carrel.toml:19: there is no role 'vewer'; did you mean 'viewer'?"),
        ('role = "viewer"\nallow = "reed"', "carrel.toml:20: there is no verb 'reed'; did you mean 'read'?"),
        (
            'role = "local"\nallow = "read"\nresources = "a://{claim.team}"',
            "carrel.toml:21: {claim.team}: a caller with the role local has no claims",
        ),
        (
            'role = "viewer"\nallow = "read"\nresources = "NOTES/blue/draft-1.md"',
            "carrel.toml:18: the rule never decides: carrel.toml:13 does",
        ),
        (
            'role = "viewer"\nallow = "read"\nresources = "NOTES/bleu/**"',
            "carrel.toml:18: the rule matches nothing that is shared",
        ),
        (
            'role = "*"\ndeny = "read"\nresources = "**/drft-*"',
            "carrel.toml:18: the rule matches nothing that is shared (deny read resources **/drft-* for *)",
        ),
        (
            'role = "viewer"\nallow = "use"\ntools = "find_*"',
            "carrel.toml:18: the rule matches nothing that is shared (allow use tools find_* for viewer)",
        ),
    ],
)
def test_problems_are_named_by_line(notes: str, capsys: pytest.CaptureFixture[str], rule: str, problem: str) -> None:
    append(f"\n[[access.rules]]\n{rule.replace('NOTES', notes)}\n")
    assert policy("check") == 1
    assert problem in capsys.readouterr().err


def test_without_all_servers_no_rule_is_said_to_match_nothing(notes: str, capsys: pytest.CaptureFixture[str]) -> None:
    append('\n[servers.shop]\ncommand = "no-such-program"\n')
    append('\n[[access.rules]]\nrole = "viewer"\nallow = "read"\nresources = "shop://**"\n')
    assert policy("check") == 1
    errors = capsys.readouterr().err
    assert "carrel: shop is left out: " in errors
    assert "servers are left out, so it is unknown whether each rule matches something" in errors
    assert "matches nothing" not in errors


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (
            ("--as", "viewer", "--claim", "team=blue", "read", "NOTES/blue/a.md"),
            ["allowed", "carrel.toml:8: allow read resources"],
        ),
        (("--as", "viewer", "read", "NOTES/blue/a.md"), ["denied", "no rule allows it"]),
        (
            ("--as", "viewer", "--claim", "team=blue", "subscribe", "NOTES/blue/draft-1.md"),
            ["denied", "carrel.toml:13: deny all resources"],
        ),
        (
            ("--as", "viewer", "--claim", "team=blue", "read", "NOTES/blue/../green/b.md"),
            ["denied", "a URI with a segment . or .. does not exist"],
        ),
        (
            ("--as", "viewer", "--claim", "team=blue", "read", "NOTES/blue/%61.md"),
            ["allowed", "carrel.toml:8"],
        ),
        (("call", "find_in_files"), ["denied", "no rule allows it"]),
    ],
)
def test_a_decision_is_explained_by_its_rule(
    notes: str, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], lines: list[str]
) -> None:
    assert policy("explain", *(argument.replace("NOTES", notes) for argument in arguments)) == 0
    printed = capsys.readouterr().out
    assert printed.splitlines()[0] == lines[0]
    assert all(line in printed for line in lines)


def test_the_target_of_a_link_decides(notes: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("notes/blue/link.md").symlink_to("../green/b.md")
    assert policy("explain", "--as", "viewer", "--claim", "team=blue", "read", f"{notes}/blue/link.md") == 0
    printed = capsys.readouterr().out
    assert printed.startswith("denied\n  no rule allows it\n")
    assert f"it is a link to {notes}/green/b.md" in printed


def test_claims_that_patterns_need_are_named(notes: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert policy("explain", "--as", "viewer", "read", f"{notes}/blue/a.md") == 0
    assert "rules with {claim.team} allow nothing: give --claim team=VALUE" in capsys.readouterr().err
    assert policy("diff", "carrel.toml", "carrel.toml") == 0
    assert "give --claim team=VALUE" in capsys.readouterr().err


def test_a_role_of_a_token_has_its_name_as_subject_and_the_token_must_be_in_the_file(
    notes: str, capsys: pytest.CaptureFixture[str]
) -> None:
    append(f"""
[[access.rules]]
role = "ci"
allow = "read"
resources = "{notes}/{{claim.sub}}/**"
[auth]
tokens = "tokens.txt"
""")
    text = Path("carrel.toml").read_text().replace("local = {", 'ci = { token = "blue" }\nlocal = {')
    Path("carrel.toml").write_text(text)
    Path("tokens.txt").touch()
    assert policy("explain", "--as", "ci", "read", f"{notes}/blue/a.md") == 0
    assert capsys.readouterr().out.startswith("allowed\n")
    assert policy("check") == 1
    assert "carrel.toml:6: role ci: " in capsys.readouterr().err
    assert main(["token", "add", "blue"]) == 0
    assert policy("check") == 0


def test_tools_of_the_search_are_known_to_the_check(notes: str, capsys: pytest.CaptureFixture[str]) -> None:
    append('\n[[access.rules]]\nrole = "viewer"\nallow = "use"\ntools = "search"\n')
    append('[search]\nenabled = true\nfolder = "index"\n')
    assert policy("check") == 0, capsys.readouterr().err
    assert policy("explain", "--as", "viewer", "call", "search") == 0
    assert not Path("index").exists()  # it is the server that indexes


def test_expectations_are_tested(notes: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("expected.txt").write_text(
        f"# who            verb target\nviewer team=blue read {notes}/blue/a.md allowed\n\n"
        f"* read {notes}/blue/a.md denied\nviewer,local team=green read {notes}/blue/a.md allowed\n"
    )
    assert policy("test", "expected.txt") == 1
    printed = capsys.readouterr().out.splitlines()
    assert printed == [
        f"expected.txt:5: read {notes}/blue/a.md for local, viewer: denied: no rule allows it",
        "3 expectations, 1 failed",
    ]


@pytest.mark.parametrize(
    "line", ["viewer read x", "viewer read x maybe", "vewer read x denied", "viewer raed x denied"]
)
def test_an_invalid_expectation_has_its_line(notes: str, capsys: pytest.CaptureFixture[str], line: str) -> None:
    Path("expected.txt").write_text(f"\n{line}\n")
    assert policy("test", "expected.txt") == 2
    assert "expected.txt:2: " in capsys.readouterr().err


def test_the_differences_of_two_policies_are_those_of_what_is_shared(
    notes: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = Path("carrel.toml").read_text()
    Path("new.toml").write_text(text.replace("/draft-*", "/a.*"))
    assert policy("diff", "carrel.toml", "carrel.toml") == 0
    assert "0 differences" in capsys.readouterr().out
    assert policy("diff", "carrel.toml", "new.toml", "--claim", "team=blue") == 1
    printed = capsys.readouterr().out
    assert f"viewer: read {notes}/blue/a.md becomes denied: new.toml:13: deny all" in printed
    assert f"viewer: read {notes}/blue/draft-1.md becomes allowed: new.toml:8: allow read" in printed
    assert "2 differences" in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("explain", "read"), "usage: carrel policy explain VERB TARGET"),
        (("check", "x"), "usage: carrel policy check"),
        (("explain", "raed", "x:y"), "there is no verb 'raed'"),
        (("explain", "--as", "x", "read", "x:y"), "there is no role 'x'"),
        (("explain", "--claim", "x", "read", "x:y"), "a claim is NAME=VALUE"),
        (("diff", "--as", "x", "carrel.toml", "carrel.toml"), "there is no role 'x'"),
        (("test", "missing.txt"), "missing.txt cannot be read"),
        (("explain", "--config", "none.toml", "read", "x:y"), "none.toml cannot be read"),
    ],
)
def test_wrong_use_is_one_line(
    notes: str, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    assert policy(*arguments) == 2
    assert message in capsys.readouterr().err


def test_a_file_without_a_policy(notes: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("carrel.toml").write_text('[[sources]]\npath = "notes"\n')
    assert policy("explain", "read", "x:y") == 2
    assert "carrel.toml has no [access]: everything is allowed" in capsys.readouterr().err


def test_an_unknown_setting_of_a_policy_stops_all_commands(notes: str) -> None:
    append("\n[access.rule]\n")
    from carrel.cli.server.serve import run

    with pytest.raises(ConfigError, match=r"\[access\] rule: there is no such setting"):
        run(["--config", "carrel.toml"])
