"""Loading of servers from Python code."""

import sys

import pytest

from carrel import Server
from carrel.cli.server.load import load, ready
from carrel.cli.target import read_location
from carrel.errors import ConfigError

ONE = "from carrel import Server\nbooks = Server('books')\n"


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write files into an empty folder, which is the current one; modules and paths are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = dict(sys.modules)

    def write(**texts):
        for name, text in texts.items():
            (tmp_path / f"{name}.py").write_text(text)
        return tmp_path

    yield write
    for name in sys.modules.keys() - before.keys():
        del sys.modules[name]


@pytest.mark.parametrize("target", ["shop.py", "shop", "shop.py:books", "shop:books", "shop.py:make", "shop.py:later"])
async def test_a_server_is_found_in_a_file_or_module_by_itself_by_its_name_or_by_a_function(write, target):
    write(shop=f"{ONE}def make(): return books\nasync def later(): return books\n")
    assert (await ready(load(target))).name == "books"


async def test_a_file_without_a_server_has_a_function_that_makes_one(write):
    write(shop="from carrel import Server\nasync def make_app(): return Server('made')\n")
    assert (await ready(load("shop.py"))).name == "made"


def test_a_server_under_two_names_is_one_and_a_mounted_one_is_not_meant(write):
    write(shop=f"{ONE}app = books\nother = Server('other')\nbooks.add_provider(other)\n")
    assert load("shop.py").name == "books"


def test_the_guarded_part_is_not_executed_and_an_unguarded_run_names_the_server(write):
    write(shop=f"{ONE}other = Server('other')\nother.run('http')\nraise SystemExit('too far')\n")
    run = Server.run
    assert load("shop.py").name == "other"
    assert Server.run is run
    write(guarded=f"{ONE}if __name__ == '__main__':\n    raise SystemExit('run')\n")
    assert load("guarded.py").name == "books"


def test_modules_beside_the_file_can_be_imported_from_anywhere(write, monkeypatch, tmp_path_factory):
    folder = write(shelf="name = 'shelf'\n", shop="import shelf\nfrom carrel import Server\napp = Server(shelf.name)\n")
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert load(f"{folder}/shop.py").name == "shelf"


def test_a_file_named_like_a_module_of_python_does_not_replace_it(write):
    import types

    write(types=ONE)
    assert load("types.py").name == "books"
    assert sys.modules["types"] is types


@pytest.mark.parametrize(
    ("target", "text", "complaint"),
    [
        ("shpo.py", ONE, r"no such file: shpo\.py \(did you mean .*shop\.py\?\)"),
        ("shpo", ONE, "there is no module shpo here"),
        (".", ONE, r"\. is a folder: .* carrel serve \."),
        ("shop.py:boks", ONE, r"shop\.py has no boks; did you mean 'books'\?"),
        ("shop.py:x", "x = 1\n", r"shop\.py: x is a int, and not a carrel\.Server"),
        ("shop.py:f", "def f(): return 1\n", r"shop\.py: f is a int, and not a carrel\.Server"),
        ("shop.py", "x = 1\ndef f(): pass\n", r"has no carrel\.Server; it has x \(int\), f \(function\)"),
        ("shop.py", "import os\n", "has no carrel.Server; it defines nothing but imports"),
        ("shop.py", ONE + "b = Server('b')\n", r"has 2 servers; name one: shop\.py:books or shop\.py:b"),
        ("shop.py", "def f(\n", r"SyntaxError: .* \(shop\.py, line 1\)"),
        ("shop.py", "\n\n1 / 0\n", r"ZeroDivisionError: division by zero \(shop\.py, line 3\)"),
        ("shop.py", "raise SystemExit('no')\n", r"SystemExit: no \(shop\.py, line 1\)"),
        ("shop.py", "import nothing_of_that_name\n", "needs nothing_of_that_name, .*: pip install nothing_of"),
        ("shop.py", "from . import x\n", "as a module of its package instead: carrel run PACKAGE.MODULE"),
        ("shop.py:f", "def f(): return 1 / 0\n", r"ZeroDivisionError: division by zero \(shop\.py, line 1\)"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_with_the_place_in_the_code(write, target, text, complaint):
    write(shop=text)
    with pytest.raises(ConfigError, match=complaint):
        load(target)


@pytest.mark.parametrize(
    ("body", "complaint"), [("return 1", "returned a int"), ("1 / 0", r"failed: ZeroDivisionError: .*line 2\)")]
)
async def test_an_async_factory_that_makes_no_server_is_refused(write, body, complaint):
    write(shop=f"async def make_app():\n    {body}\n")
    with pytest.raises(ConfigError, match=complaint):
        await ready(load("shop.py"))


def test_a_database_is_not_a_python_file(tmp_path):
    file = tmp_path / "shop.db"
    file.write_bytes(b"SQLite format 3\0")
    with pytest.raises(ConfigError, match=r"shop\.db is not a Python file: "):
        load(str(file))


def test_a_place_is_shown_whole(write):
    folder = write(shop=ONE)
    assert read_location("shop.py:books").absolute == f"{folder}/shop.py:books"
    assert read_location("shop:books").absolute == "shop:books"
