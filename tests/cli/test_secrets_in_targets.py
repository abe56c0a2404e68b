"""Secrets in the targets of commands: no command prints them, whatever is wrong with the target."""

from __future__ import annotations

from pathlib import Path

import pytest

from carrel.cli import COMMANDS
from carrel.redaction import without_secrets
from support.carrel_process import carrel

pytestmark = pytest.mark.slow

SECRET = "0pen-sesame"
CLOSED = "127.0.0.1:9"
#: A target of each kind that commands tell apart: a source, a URL of a server, a URL of neither.
KINDS = (
    f"postgres://ann:{SECRET}@{CLOSED}/shop",
    f"http://ann:{SECRET}@{CLOSED}/mcp?sig={SECRET}",
    f"x://:{SECRET}@x/y",
    f"ann:{SECRET}@{CLOSED}/mcp",
    f"https:/ann:{SECRET}@{CLOSED}/mcp",
)
#: Targets of every scheme that can have a secret: in vain, or not valid.
SCHEMES = (
    *(f"{scheme}://ann:{SECRET}@{CLOSED}/shop" for scheme in ("postgresql", "mysql", "mariadb")),
    *(f"{scheme}://ann:{SECRET}@{CLOSED}/shop" for scheme in ("s3", "az", "gs", "sftp", "webdav", "webdavs")),
    *(f"{scheme}://ann:{SECRET}@{CLOSED}/x" for scheme in ("web+http", "https", "openapi+https", "git+https", "imap")),
    *(f"{scheme}://{CLOSED}/x?token={SECRET}" for scheme in ("webdav", "web+http", "openapi+http", "http")),
    *(f"postgres://{CLOSED}/shop?password={SECRET}", f"sqlite:///missing.db?key={SECRET}", f"git://ann:{SECRET}@x/y"),
    f"postgres://ann:{SECRET}@{CLOSED[:-1]}port/shop",
)
#: Arguments of commands besides the target; None for commands without one.
ARGUMENTS: dict[str, tuple[str, ...] | None] = {
    **dict.fromkeys(("ls", "tree", "tools", "skills", "watch", "chat", "info", "doctor", "dev", "run", "gateway"), ()),
    **dict.fromkeys(("login", "logout", "serve"), ()),
    **dict.fromkeys(("context", "find", "cat", "call", "prompt"), ("word",)),
    "record": ("session.jsonl",),
    "install": ("--dry-run",),
    **dict.fromkeys(("init", "config", "import", "completion", "replay", "policy", "audit", "token", "state"), None),
    "studio": None,  # it serves the page although a server failed: tests/cli/server/test_studio.py
}


def test_every_command_is_known_here() -> None:
    assert set(ARGUMENTS) == set(COMMANDS), "name the new command in ARGUMENTS"


#: Commands that read their target as ``ls`` does: ``make test`` has two kinds of targets for each of them.
ALIKE = ("tree", "tools", "skills", "watch", "info", "doctor", "context", "find", "cat", "call", "prompt")


@pytest.mark.parametrize(
    ("command", "targets"),
    [
        *((name, KINDS[:2]) for name, more in ARGUMENTS.items() if more is not None),
        *(
            pytest.param(name, KINDS[2:], marks=pytest.mark.exhaustive if name in ALIKE else [])
            for name, more in ARGUMENTS.items()
            if more is not None
        ),
    ],
)
def test_no_command_prints_a_secret_of_its_target(command: str, targets: tuple[str, ...], tmp_path: Path) -> None:
    for target in targets:
        before = ("vscode",) if command == "install" else ()
        more = ARGUMENTS[command] or ()
        given = (*more, target) if command == "record" else (*before, target, *more)
        done = carrel(command, "--debug", *given, cwd=tmp_path)
        assert SECRET.encode() not in done.stdout + done.stderr, (target, done)


@pytest.mark.parametrize("target", SCHEMES)
def test_a_start_that_fails_prints_no_secret(target: str, tmp_path: Path) -> None:
    done = carrel("serve", "--debug", "--log-level=debug", target, cwd=tmp_path)
    assert done.returncode
    assert SECRET.encode() not in done.stdout + done.stderr, done


def test_the_command_of_a_server_is_printed_without_secrets(tmp_path: Path) -> None:
    done = carrel("info", "--", "carrel-no-such-program", KINDS[0], cwd=tmp_path)
    assert done.returncode
    assert SECRET.encode() not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("command", "target"),
    [
        ("ls", f"env API_KEY={SECRET} nosuchcmd"),
        ("ls", f"nosuchcmd --api-key '{SECRET} {SECRET}'"),
        ("ls", f"nosuchcmd '--password={SECRET}'"),
        ("serve", f"nosuchcmd --token {SECRET}"),
        ("run", f"env 'GITHUB_TOKEN={SECRET} {SECRET}' nosuchcmd"),
    ],
)
def test_secrets_in_the_words_of_a_command_are_not_printed(command: str, target: str, tmp_path: Path) -> None:
    done = carrel(command, "--debug", target, cwd=tmp_path)
    assert done.returncode
    assert b"nosuchcmd" in done.stdout + done.stderr
    assert SECRET.encode() not in done.stdout + done.stderr, done


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("env API_KEY=s3, cmd --token=s3 -v", "env API_KEY=******** cmd --token=******** -v"),
        ("env 'MY_TOKEN=s3 s3' cmd", "env 'MY_TOKEN=********' cmd"),
        ("env 'MY_TOKEN=s3'\"'\"'s3' cmd", "env 'MY_TOKEN=********' cmd"),
        ('env secret="s3 s3" cmd', "env secret=******** cmd"),
        (
            "['env', 'OPENAI_KEY=s3', '--auth-token', 's3']",
            "['env', 'OPENAI_KEY=********', '--auth-token', ********]",
        ),
        ("there is no 'cmd --password s3' here", "there is no 'cmd --password ********' here"),
    ],
)
def test_secret_words_of_commands_are_hidden(text: str, shown: str) -> None:
    assert without_secrets(text) == shown
    assert without_secrets(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "carrel gateway mcp.json --tokens FILE",
        "carrel serve . --http 8000 --tokens tokens.txt --keep-secrets here",
        "--token is not an option of carrel ls",
        "give --password or --api-key",
        "key=value, max_tokens=100, monkey=3, PWD=/home/ann, primary_key=id",
        "env API_KEY=${env:API_KEY} cmd --token $TOKEN --token TOKEN",
        "--token --verbose",
    ],
)
def test_ordinary_text_and_references_to_variables_are_shown(text: str) -> None:
    assert without_secrets(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://x/y?a=1&sig=s3cr3t&b=2", "https://x/y?a=1&sig=********&b=2"),
        ("https://x/?X-Amz-Signature=s3cr3t", "https://x/?X-Amz-Signature=********"),
        ("at https://x/?access_token=s3cr3t, 'http://x?api_key=s3cr3t'", None),
        ("postgres://ann:s3:cr@3t@x/y?password=s3cr3t#z", "postgres://ann:********@x/y?password=********#z"),
        ("notes.txt?lines=1-5", "notes.txt?lines=1-5"),
    ],
)
def test_secret_parameters_of_urls_are_hidden(text: str, shown: str | None) -> None:
    found = without_secrets(text)
    assert "s3" not in found
    assert shown is None or found == shown
