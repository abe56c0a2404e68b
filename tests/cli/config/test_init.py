"""``carrel init``: the file that it writes is right, and fits the folder."""

import re
import tomllib

import jsonschema_rs
import msgspec
import pytest

from carrel.cli import main
from carrel.cli.config.init import SCHEMA_FILE, find_apps
from carrel.cli.config.toml import read_file

SERVER = "from carrel import Server\n\n{name} = Server('x')\n"


def made(folder):
    """Return the settings of the file that init writes into a folder, which are checked."""
    assert main(["init", str(folder), "--force"]) == 0
    file = folder / "carrel.toml"
    assert read_file(str(file)).problems == []
    document = tomllib.loads(file.read_text())
    validator = jsonschema_rs.validator_for(msgspec.json.decode((folder / SCHEMA_FILE).read_bytes()))
    assert list(validator.iter_errors(document)) == []
    return document


def test_a_folder_of_files_is_shared(tmp_path, capsys):
    document = made(tmp_path)
    assert document == {
        "server": {"name": tmp_path.name},
        "sources": [{"path": ".", "exclude": ["/carrel.toml", "/tokens.txt"]}],
    }
    assert f"now: carrel serve --config {tmp_path / 'carrel.toml'}" in capsys.readouterr().out
    assert main(["config", "check", "--config", str(tmp_path / "carrel.toml")]) == 0


def test_what_is_there_already_is_kept_without_force(tmp_path, capsys):
    (tmp_path / "carrel.toml").write_text("mine")
    assert main(["init", str(tmp_path)]) == 2
    assert "already exists; --force replaces it" in capsys.readouterr().err
    assert (tmp_path / "carrel.toml").read_text() == "mine"
    assert not (tmp_path / SCHEMA_FILE).exists()
    made(tmp_path)


def test_a_server_in_python_is_run(tmp_path, capsys):
    (tmp_path / "server.py").write_text(SERVER.format(name="app"))
    assert made(tmp_path) == {"app": {"file": "server.py"}}
    assert "now: carrel run" in capsys.readouterr().out


def test_servers_are_found_without_running_code(tmp_path):
    files = {
        "a.py": SERVER.format(name="one") + "two: Server[None] = Server[None]('y')\n",
        "b.py": "import carrel\nif 1:\n    pass\nasync def make_app():\n    return carrel.Server('x')\n",
        "c.py": "from other import Server\napp = Server('x')\n",
        "d.py": "raise SystemExit(1)\nfrom carrel import Server\napp = Server('x')\n",
        "e.py": "not python",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "f.py").mkdir()
    assert find_apps(tmp_path) == ["a.py:one", "a.py:two", "b.py", "d.py"]


def test_skills_and_gitignore_are_noticed(tmp_path):
    for name in ("skills", ".claude/skills"):
        (tmp_path / name / "sum").mkdir(parents=True)
        (tmp_path / name / "sum" / "SKILL.md").write_text("x")
    (tmp_path / ".gitignore").write_text("x\n")
    document = made(tmp_path)
    assert document["skills"] == {"folders": ["./skills", "./.claude/skills"]}
    assert document["sources"][0]["exclude"] == ["/carrel.toml", "/tokens.txt", "/skills"]
    assert "# gitignore = false " in (tmp_path / "carrel.toml").read_text()


@pytest.mark.parametrize("app", [False, True])
def test_the_file_is_right_with_its_examples_too(app, tmp_path, monkeypatch):
    monkeypatch.setenv("INTROSPECTION_SECRET", "x")
    if app:
        (tmp_path / "server.py").write_text(SERVER.format(name="app"))
    made(tmp_path)
    text = (tmp_path / "carrel.toml").read_text()
    examples = re.sub(r"(?m)^# (?=\[|\w+ = )", "", text)
    assert examples != text
    (tmp_path / "carrel.toml").write_text(examples)
    assert read_file(str(tmp_path / "carrel.toml")).problems == []


def test_what_is_no_folder_is_named(tmp_path, capsys):
    assert main(["init", str(tmp_path / "x")]) == 2
    assert "x is not a folder" in capsys.readouterr().err
