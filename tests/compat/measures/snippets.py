"""Measure: Python code in a package's documentation whose imports of the package resolve on Carrel."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import tempfile
import textwrap
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from compat.measures.comparing import start_reason
from compat.measures.originals import Checkout, environment, sources
from compat.measures.report import Result

__all__ = ["blocks", "imports_of", "measure"]

BLOCK = re.compile(r"(?ms)^(?P<indent>[ \t]*)```(?:python|py)\b[^\n]*\n(?P<code>.*?)^[ \t]*```")
#: Documentation of earlier versions.
OLDER = re.compile(r"docs/v\d/")
MIRRORED = ("fastmcp", "mcp", "mcp_types")
AT_ONCE = 2
#: What a program of imports prints if all of them resolve.
RESOLVED = "resolved"


def blocks(root: Path) -> Iterator[tuple[str, str]]:
    """Yield the snippets of a package's sources: a name, and the code."""
    for path in sorted([*root.glob("*.md"), *root.glob("docs/**/*.md"), *root.glob("docs/**/*.mdx")]):
        if OLDER.match(str(path.relative_to(root))):
            continue
        for number, match in enumerate(BLOCK.finditer(path.read_text()), 1):
            yield f"{path.relative_to(root)}#{number}", textwrap.dedent(match["indent"] + match["code"])
    for path in sorted(root.glob("docs_src/**/*.py")):
        yield str(path.relative_to(root)), path.read_text()


def imports_of(code: str) -> list[str]:
    """Return the imports of the mirrored packages in some code, one name each. Code that is not Python has none."""
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return []
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [f"import {each.name}" for each in node.names if each.name.partition(".")[0] in MIRRORED]
        elif isinstance(node, ast.ImportFrom) and not node.level and str(node.module).partition(".")[0] in MIRRORED:
            found += [f"from {node.module} import {each.name}" for each in node.names]
    return sorted(set(found))


def measure(package: str, checkout: Checkout, wanted: Sequence[str] = ()) -> Result:
    """Count the snippets whose imports resolve on the original, and how many of them resolve on Carrel."""
    python = environment(package) / "bin" / "python"
    snippets = [(name, found) for name, code in blocks(sources(package)) if (found := imports_of(code))]
    snippets = [(name, found) for name, found in snippets if not wanted or any(part in name for part in wanted)]
    programs = {tuple(found) for _, found in snippets}
    missing = unresolved({line for each in programs for line in each}, python)
    valid = sorted(each for each in programs if not any(line in missing for line in each))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        reasons = dict(zip(valid, pool.map(lambda each: refused(each, python, checkout), valid), strict=True))
    rows = [(name, reasons[tuple(found)]) for name, found in snippets if tuple(found) in reasons]
    resolved = sum(not why for _, why in rows)
    result = Result(f"Snippets of {package}", ("snippets with imports", "resolve on the original", "resolve on Carrel"))
    result.lines.append((len(snippets), len(rows), resolved))
    result.failures += [(name, why) for name, why in rows if why]
    return result


def unresolved(lines: set[str], python: Path) -> dict[str, str]:
    """Return the imports that fail on the original, each with its error."""
    code = (
        "import json, sys\nfailed = {}\nfor line in json.load(sys.stdin):\n    try:\n        exec(line, {})\n"
        "    except Exception as error:\n        failed[line] = repr(error)\nprint(json.dumps(failed))\n"
    )
    done = subprocess.run(
        [str(python), "-W", "ignore", "-c", code], input=json.dumps(sorted(lines)), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


def refused(lines: Sequence[str], python: Path, checkout: Checkout) -> str:
    """Return why imports do not resolve on Carrel; "" if they do."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "snippet.py")
        program.write_text("\n".join([*lines, f"print({RESOLVED!r})"]))
        done = subprocess.run(
            checkout.forked(python, str(program)), env=checkout.environ(), capture_output=True, text=True
        )
    return "" if RESOLVED in done.stdout else start_reason(done.stderr)
