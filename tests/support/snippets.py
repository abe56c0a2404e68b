"""Code blocks of the documentation: found in the pages, and turned into files that mypy checks."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*/README.md"))
)
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


def module_name(page: str) -> str:
    return re.sub(r"\W", "_", page.removesuffix(".md"))


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
