"""The README, docs/tutorial.md and docs/testing.md, followed word by word in an empty folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.snippets import read, snippets

pytestmark = pytest.mark.slow

#: Programs of this environment. pytest loads the plugin that docs/testing.md installs, and not those of the tests of
#: Carrel, which take four seconds.
ENVIRONMENT = os.environ | {
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    "COLUMNS": "120",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    "PYTEST_PLUGINS": "pytest_asyncio.plugin",
}
PYTEST = "python -m pytest -p no:cacheprovider"
SERVER = """
from carrel import Context, Server
from dataclasses import dataclass

app = Server("tested")
app.resources.add("memo://today", "Buy milk.")

@app.resource("book://{author}/{title}")
def book(author: str, title: str) -> None: ...

@app.tool()
def add(a: int, b: int) -> dict[str, int]:
    return {"sum": a + b}

@dataclass
class Reservation:
    name: str
    guests: int

@app.tool()
async def reserve(evening: str, context: Context) -> str:
    wish = await context.elicit("A table?", Reservation)
    return f"A table for {wish.data.name}"

if __name__ == "__main__":
    app.run()
"""


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, shell=True, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=100, check=False
    )


@pytest.mark.parametrize("page", ["docs/tutorial.md"])
def test_the_tutorial_works_as_it_is_written_from_an_empty_folder(page: str, tmp_path: Path) -> None:
    *pieces, check = [snippet.code for snippet in snippets(page, "python")]
    (tmp_path / "shelf.py").write_text("\n\n".join(pieces), encoding="utf-8")
    (tmp_path / "test_shelf.py").write_text(check, encoding="utf-8")
    shown = 0
    for snippet in snippets(page, "console"):
        for command, output in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", snippet.code, re.MULTILINE):
            if command.startswith("pip install"):
                continue
            done = run(command, tmp_path)
            assert done.returncode == 0, done.stdout + done.stderr
            if output:
                assert done.stdout == output
                shown += 1
    assert shown == 3


def test_the_tests_on_the_page_about_testing_pass_with_and_without_a_configuration(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(SERVER)
    fixture, *tests = [snippet.code for snippet in snippets("docs/testing.md", "python")]
    (tmp_path / "conftest.py").write_text(fixture)
    marked, others = tests[0], tests[1:]
    (tmp_path / "test_marked.py").write_text(marked)
    (tmp_path / "test_others.py").write_text("from carrel import Client\nfrom server import app\n" + "\n".join(others))
    done = run(f"{PYTEST} -o asyncio_default_fixture_loop_scope=function test_marked.py", tmp_path)
    assert "2 passed" in done.stdout, done.stdout + done.stderr
    (configuration,) = snippets("docs/testing.md", "toml")
    (tmp_path / "pyproject.toml").write_text(configuration.code)
    done = run(PYTEST, tmp_path)
    assert f"{2 + len(re.findall('def test_', ''.join(others)))} passed" in done.stdout, done.stdout + done.stderr


#: Commands of the README for the server in it, and what each prints.
PRINTED = {
    "carrel ls books.py": "Templates\n  book://{author}/{title}  text/plain  A book\n\n"
    "Tools\n  count(words: string)  Count the words of a text.\n",
    "carrel cat books.py book://lem/solaris": "solaris by lem\n",
    'carrel call books.py count words="to be"': "2\n",
}


def test_the_commands_of_the_readme_work_with_its_server(tmp_path: Path) -> None:
    (tmp_path / "books.py").write_text(snippets("README.md", "python")[0].code, encoding="utf-8")
    lines = [line for snippet in snippets("README.md", "sh") for line in snippet.code.splitlines()]
    commands = [line.partition("  #")[0].strip() for line in lines if "books.py" in line]
    assert [command for command in commands if not command.startswith(("carrel run", "carrel dev"))] == list(PRINTED)
    for command, printed in PRINTED.items():
        assert run(command, tmp_path).stdout == printed


def test_the_test_of_the_tutorial_needs_no_plugin() -> None:
    assert "async def test" not in read("docs/tutorial.md")
