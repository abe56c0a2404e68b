"""``carrel config``: the settings in force with their origins, all errors of a file, and the JSON schema."""

import json
import tomllib

import jsonschema_rs
import pytest

from carrel.cli import main
from carrel.cli.config.schema import schema
from carrel.cli.config.settings import fields

FILE = """\
[server]
name = "project"
[http]
port = "${env:TEST_PORT:-8000}"
[auth]
issuer = "https://alice:${env:TEST_SECRET}@auth.example"
documentation = "${file:secret}"
[auth.introspection]
client_id = "mcp"
client_secret = "${env:TEST_SECRET}"
[[sources]]
path = "docs"
max_size = "1MiB"
title = "${env:TEST_TITLE:-Docs}"
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TEST_SECRET", "hunter2")
    (tmp_path / "docs").mkdir()
    (tmp_path / "secret").write_text("hunter2\n")
    (tmp_path / "carrel.toml").write_text(FILE)
    return tmp_path


def show(capsys, *arguments):
    assert main(["config", "show", *arguments]) == 0
    return capsys.readouterr().out


def test_what_is_in_force_is_toml_with_where_it_comes_from(capsys, monkeypatch):
    monkeypatch.setenv("CARREL_LIMITS_MAX_TASKS", "5")
    text = show(capsys, "--path", "/x", "--threads", "3")
    lines = {" ".join(line.split()) for line in text.splitlines()}
    assert lines >= {
        "[server]",
        'name = "project" # carrel.toml:2',
        "# title # default",
        "page_size = 100 # default",
        "port = 8000 # carrel.toml:4",
        'path = "/x" # --path',
        "max_tasks = 5 # environment CARREL_LIMITS_MAX_TASKS",
        "[[sources]]",
        'url = "docs" # carrel.toml:11',
        "max_size = 1048576 # carrel.toml:13",
        'title = "Docs" # carrel.toml:14',
        "threads = 3 # --threads",
        "threads_per_client = 4 # default",
    }
    assert tomllib.loads(text)["http"] | {"port": 8000, "path": "/x"} == tomllib.loads(text)["http"]


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_secrets_are_never_shown(form, capsys):
    text = show(capsys, *form)
    assert "hunter2" not in text
    for secret in ("client_secret", "documentation", "issuer"):
        [line] = [line for line in show(capsys).splitlines() if line.startswith(f"{secret} = ")]
        assert "********" in line


def test_every_setting_is_shown_as_json(capsys):
    rows = {row["name"]: row for row in json.loads(show(capsys, "--json"))}
    assert set(fields()) <= set(rows)
    assert rows["http.port"] == {"name": "http.port", "value": 8000, "origin": "carrel.toml:4"}
    assert rows["sources.0.url"]["value"] == "docs"


def test_what_the_command_line_shares_is_shown_first(capsys):
    text = show(capsys, "--config", "carrel.toml", "other", "--hidden")
    urls = [line.split("#")[0].strip() for line in text.splitlines() if line.startswith("url = ")]
    assert urls[-2:] == ['url = "other"', 'url = "docs"']


def test_a_file_that_is_right_says_what_to_do_next(capsys, folder):
    (folder / "carrel.toml").write_text('[[sources]]\npath = "docs"\n')
    assert main(["config", "check"]) == 0
    assert capsys.readouterr().out == "carrel.toml is valid: carrel serve --config carrel.toml\n"
    (folder / "server.py").write_text("")
    (folder / "app.toml").write_text('[app]\nfile = "server.py:app"\n')
    assert main(["config", "check", "--config", "app.toml"]) == 0
    assert capsys.readouterr().out == "app.toml is valid: carrel run --config app.toml\n"


@pytest.mark.parametrize(
    ("text", "complaints"),
    [
        (
            "[http]\nprot = 1\n[htp]\n",
            ["carrel.toml:2:1: [http] prot", "carrel.toml:3:1: htp: there is no such section"],
        ),
        ("[[sources]]\npath = 'dcs'\n", ["no such file or folder: "]),
        ("[app]\nfile = 'sever.py'\n", ["no such file: "]),
        ("[auth]\ntokens = 'nowhere.txt'\n[[sources]]\npath = 'docs'", ["carrel.toml:2: [auth] "]),
        ("[http]\nport = 1", ["there is nothing to serve"]),
    ],
)
def test_a_check_tells_everything_that_is_wrong(text, complaints, folder, capsys):
    (folder / "carrel.toml").write_text(text)
    assert main(["config", "check"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(complaints)
    for line, complaint in zip(lines, complaints, strict=True):
        assert line.startswith(f"carrel: {complaint}") or complaint in line


def test_what_a_file_says_controls_no_terminal(folder, capsys):
    (folder / "carrel.toml").write_text('["\\u001b]0;x\\u0007"]\na = 1\n')
    for command in (["config", "check"], ["config", "show"]):
        assert main(command) == 2
        assert "\\x1b]0;x\\x07: there is no such section" in capsys.readouterr().err


def test_the_schema_is_printed_and_takes_what_carrel_takes(capsys):
    assert main(["config", "schema"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == schema()
    validator = jsonschema_rs.validator_for(found)
    assert list(validator.iter_errors(tomllib.loads(FILE.replace("alice:", "")))) == []
    for field in fields().values():
        place = found
        for part in field.section.split("."):
            place = place["properties"][part]
        assert field.name in place["properties"]


@pytest.mark.parametrize(
    "text",
    [
        "name = 'x'",
        "[http]\nprot = 1",
        "[http]\nport = '8000'",
        "[http]\nport = 70000",
        "[logging]\nlevel = 'warn'",
        "[limits]\nmax_kept_bytes = 'much'",
        "[auth.introspection]\nclient_id = 'x'\nclient_secret = 'hunter2'",
        "[auth.introspection]\nclient_id = 'x'",
        "[[sources]]\npath = 'a'\nurl = 'b'",
        "[[sources]]\npath = 'a'\nincludes = []",
        "[sources]\npath = 'a'",
    ],
)
def test_the_schema_refuses_what_carrel_refuses(text):
    assert not jsonschema_rs.validator_for(schema()).is_valid(tomllib.loads(text))
