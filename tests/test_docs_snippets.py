"""Code blocks of the documentation and of docstrings: they fit what Carrel has, and are valid in their language."""

from __future__ import annotations

import ast
import inspect
import json
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from carrel import Client, Server
from carrel.cli import COMMANDS, module_of
from carrel.cli.client import cat
from carrel.cli.client.connection import read_target
from carrel.cli.config import config
from carrel.sources.registry import Source
from support.snippet_context import DOCSTRINGS, DOCSTRINGS_OF, PREAMBLES
from support.snippets import (
    PAGES,
    ROOT,
    Snippet,
    docstring_code,
    module_name,
    python_pages,
    snippets,
    write_docstring_module,
    write_module,
)
from support.type_checker import check_types

#: Errors of mypy that mean that a snippet names something that does not exist, or passes what is not accepted.
CODES = ("attr-defined", "call-arg", "call-overload", "import-not-found", "name-defined", "syntax", "typeddict-item")
#: Snippets are parts of functions, and await outside of them.
FRAGMENT = re.compile(r'outside (async )?function|"return" outside function')
#: Packages of others that take mypy a minute: what snippets pass to them is checked by running them with the real
#: packages, in tests/agents/test_docs.py and tests/chat/test_docs.py.
HEAVY = "".join(
    f"[mypy-{name}.*]\nfollow_imports = skip\n"
    for name in ("anthropic", "openai", "google.genai", "langchain_core", "llama_index", "pydantic_ai", "pydantic")
)
#: Options for snippets, which are not strict, and modules that they write.
RELAXED = """
implicit_reexport = True
disallow_untyped_defs = False
allow_redefinition_new = True
disable_error_code = no-redef
[mypy-server,shelf]
ignore_missing_imports = True
"""
MAKE = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
EXTRAS = set(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"])


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What mypy finds in the Python code of each page and of docstrings, by the name of its module."""
    folder = tmp_path_factory.mktemp("snippets")
    files = [write_module(page, PREAMBLES.get(page, ""), folder) for page in python_pages()]
    files += [
        write_docstring_module(name, DOCSTRINGS + DOCSTRINGS_OF.get(name, ""), folder) for name in docstring_code()
    ]
    done = check_types(files, f"[mypy-{','.join(file.stem for file in folder.glob('*.py'))}]{RELAXED}{HEAVY}")
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        match = re.search(r"(\w+)\.py:(\d+): error: (.*)\[([a-z-]+)\]$", line)
        if match and match[4] in CODES and not FRAGMENT.search(match[3]):
            found.setdefault(match[1], []).append(f"line {match[2]}: {match[3].strip()}")
    return found


@pytest.mark.slow
@pytest.mark.parametrize("page", python_pages())
def test_python_code_names_only_what_there_is_and_passes_only_what_is_accepted(
    page: str, findings: dict[str, list[str]]
) -> None:
    assert "\n".join(findings.get(module_name(page), [])) == ""


#: The docstring whose code tests/client/test_extensions.py runs.
RUN = {"docstrings_of_carrel_client_extensions"}


@pytest.mark.slow
def test_python_code_in_docstrings_names_only_what_there_is_and_passes_only_what_is_accepted(
    findings: dict[str, list[str]],
) -> None:
    assert len(docstring_code()) > 20
    assert set(DOCSTRINGS_OF) <= set(docstring_code())
    assert {name: found for name, found in findings.items() if name.startswith("docstrings_of_")}.keys() <= RUN


def test_every_page_with_a_preamble_has_python_code() -> None:
    assert set(PREAMBLES) <= set(python_pages())


#: Pages about clients, whose code tests/client/test_docs.py runs against a server; and code that other tests run.
ELSEWHERE = {
    "README.md",
    "docs/gateway.md",
    "docs/agents.md",
    "docs/host.md",
    "docs/observability.md",
    "docs/chat-models.md",
    "docs/sync.md",
    "docs/testing.md",
    "docs/tutorial.md",
    "docs/writing-a-provider.md",
}


def server_pages() -> list[str]:
    originals = [page for page in python_pages() if not re.search(r"\.(zh|de)\.md$", page)]
    return [page for page in originals if "docs/client" not in page and page not in ELSEWHERE]


@pytest.mark.parametrize("page", server_pages())
async def test_python_code_for_servers_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("notes", "src", "skills", "more", "docs"):
        (tmp_path / folder).mkdir()
    (tmp_path / "tokens.txt").write_text("")
    monkeypatch.setenv("STATE_KEYS", "00" * 32)
    for name in ("INTROSPECTION_SECRET", "GITHUB_CLIENT_ID", "GITHUB_CLIENT_SECRET"):
        monkeypatch.setenv(name, "secret")
    monkeypatch.setattr(Server, "run", lambda *_, **__: None)
    names: dict[str, object] = {"__name__": "snippets"}
    monkeypatch.setitem(sys.modules, "snippets", ModuleType("snippets"))
    exec(compile(PREAMBLES.get(page, ""), "preamble", "exec"), names)
    for snippet in snippets(page, "python"):
        code = "\n" * (snippet.line - 1) + snippet.code
        running = eval(compile(code, page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
        if inspect.isawaitable(running):
            await running


async def test_middleware_on_its_page_refuses_a_call_with_a_message_for_the_model() -> None:
    names: dict[str, object] = {"is_open": lambda: False}
    for snippet in snippets("docs/middleware.md", "python"):
        exec(compile(snippet.code, "middleware.md", "exec"), names)
    app = names["app"]
    assert isinstance(app, Server)
    app.tool(name="lend")(lambda: "Here it is.")
    async with Client(app) as client:
        result = await client.call_tool("lend")
        names["is_open"] = lambda: True
        shouted = await client.call_tool("lend")
    assert (result.is_error, result.text) == (True, "The library is closed. Try again tomorrow.")
    assert shouted.text == "HERE IT IS."


def commands(page: str) -> Iterator[list[str]]:
    """The command lines in the shell code of a page, as lists of words."""
    for snippet in snippets(page, "sh"):
        for line in snippet.code.replace("\\\n", " ").splitlines():
            for part in re.split(r"\s(?:\||&&)\s", line):
                words = shlex.split(part.replace("…", "x"), comments=True)
                while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
                    del words[0]
                if words:
                    redirected = next((at for at, word in enumerate(words) if word in (">", ">>")), len(words))
                    yield words[:redirected]


#: The source of the example package, whose page has its options.
MBOX = Source("mbox", "a mailbox", "carrel_mbox:MailboxSource", "")


def parse(words: list[str]) -> None:
    """Parse a command line of Carrel with the parser of its subcommand."""
    command, *arguments = words
    assert command in COMMANDS or command.startswith("--"), f"there is no command {command}"
    if command.startswith("--") or arguments[:1] == ["--compat"]:  # what follows is the command line of a program
        return
    if command == "config":  # what it does not know is for carrel serve
        _, arguments = config.parser().parse_known_args(arguments)
        command = "serve"
    make = module_of(command).parser
    parser = make([MBOX]) if command in ("serve", "install") else make()
    template = cat.template_in(arguments) if command == "cat" else None
    if template is not None:
        cat.add_variables(parser, template)
    if any(action.dest == "target" for action in parser._actions) and "--" in arguments:
        read_target(parser, arguments)
    else:
        parser.parse_intermixed_args(arguments)


@pytest.mark.parametrize("page", [page for page in PAGES if snippets(page, "sh")])
def test_command_lines_are_accepted(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "examples" / "carrel-mbox"))
    monkeypatch.chdir(tmp_path)
    for name in ("server.py", "books.py", "shelf.py"):
        Path(name).touch()
    for words in commands(page):
        program = next((index for index, word in enumerate(words) if Path(word).name == "carrel"), None)
        if words[0] == "make":
            assert {word for word in words[1:] if "=" not in word} <= MAKE
        elif "pip" in words or words[0] in ("uvx", "uv"):
            asked = {extra for word in words for extra in re.findall(r"\[([a-z,]+)\]", word)}
            assert {name for extras in asked for name in extras.split(",")} <= EXTRAS
        if program is not None and not {"pip", "docker", "claude"} & set(words[:program]):
            parse(words[program + 1 :])


def parsers(snippet: Snippet) -> None:
    if snippet.language == "json":
        json.loads(snippet.code)
    elif snippet.language == "toml":
        tomllib.loads(snippet.code)
    else:
        list(yaml.safe_load_all(snippet.code))


@pytest.mark.parametrize("page", [page for page in PAGES if snippets(page, "json", "toml", "yaml")])
def test_configuration_in_json_toml_and_yaml_is_valid(page: str) -> None:
    for snippet in snippets(page, "json", "toml", "yaml"):
        try:
            parsers(snippet)
        except ValueError as error:
            pytest.fail(f"line {snippet.line}: {error}")
