"""Code blocks of the documentation and of docstrings: found, and turned into files that mypy checks."""

from __future__ import annotations

import ast
import re
import textwrap
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*/README.md"))
)
SOURCE = ROOT / "src"
INDENTED = re.compile(r"\n\n((?:    .*\n|\n)*    .*)(?:\n|$)")
FENCE = re.compile(r"^( *)```([a-z]+)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Snippet:
    """Code block of a page: its language, the line on which its code begins, and its code."""

    page: str
    line: int
    language: str
    code: str


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def snippets(page: str, *languages: str) -> list[Snippet]:
    """Return the code blocks of a page in some languages, in order."""
    text = read(page)
    return [
        Snippet(page, text.count("\n", 0, found.start(3)) + 1, found[2], textwrap.dedent(found[3]))
        for found in FENCE.finditer(text)
        if found[2] in languages
    ]


def python_pages() -> list[str]:
    return [page for page in PAGES if snippets(page, "python")]


@cache
@cache
def docstring_code() -> dict[str, list[str]]:
    """Return the Python code in docstrings, by the name of its module."""
    found: dict[str, list[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "\n\n    " not in text:
            continue
        name = ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        for docstring in _docstrings(ast.parse(text)):
            for block in INDENTED.finditer(docstring):
                if _is_code(code := textwrap.dedent(block[1])):
                    found.setdefault(name, []).append(code)
    return found


def _docstrings(module: ast.Module) -> Iterator[str]:
    """Yield the docstrings of a module. Expressions, most of its nodes, have none."""
    pending: deque[ast.AST] = deque([module])
    while pending:
        node = pending.popleft()
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""
        pending.extend(each for each in ast.iter_child_nodes(node) if isinstance(each, ast.stmt | ast.ExceptHandler))


def _is_code(text: str) -> bool:
    """Return whether the text is Python code, and not a table or a list of values."""
    try:
        statements = ast.parse(text).body
    except SyntaxError:
        return False
    return any(
        isinstance(statement.value, ast.Call | ast.Await)
        if isinstance(statement, ast.Expr | ast.Assign)
        else isinstance(statement, ast.Import | ast.ImportFrom | ast.ClassDef | ast.AsyncFunctionDef | ast.AsyncWith)
        for statement in statements
    )


def module_name(page: str) -> str:
    return re.sub(r"\W", "_", page.removesuffix(".md"))


def write_docstring_module(module: str, preamble: str, folder: Path) -> Path:
    """Write the code in the docstrings of a module into a module, after the names that they assume to be there."""
    path = folder / f"docstrings_of_{module_name(module)}.py"
    lines = [f"from {module} import *", preamble, *docstring_code()[module]]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def write_module(page: str, preamble: str, folder: Path) -> Path:
    """Write all Python code of a page into one module, each line at its number in the page.

    What the page assumes to be there, the preamble, is in a module beside it.
    """
    name = module_name(page)
    (folder / f"{name}_preamble.py").write_text(preamble, encoding="utf-8")
    lines = [""] * (read(page).count("\n") + 1)
    lines[0] = f"from {name}_preamble import *"
    for snippet in snippets(page, "python"):
        code = snippet.code.replace("from __future__ import annotations", "")
        lines[snippet.line - 1 : snippet.line - 1 + code.count("\n")] = code.splitlines()
    path = folder / f"{name}.py"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path
