"""Summary of the measures for the documentation: the share that works, and the reasons of the rest.

A measure of all of its programs keeps its result. ``write`` puts the tables of the kept results between the markers
of the pages: ``<!-- measured: counts ROW … -->`` (or ``reasons``, ``failures``, ``omitted``, ``lines``) and
``<!-- end -->``. Counts of other measures stay, with the date of each. Reasons, failures and omitted files are of all
measures together, and stay as they are until there is a result of each.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from compat.measures.originals import HOME, ROOT
from compat.measures.report import Result, failures_table, table
from compat.measures.suites import PART

__all__ = ["keep", "kept", "reasons", "render", "write"]

PAGES = (ROOT / "docs" / "coming-from-mcp.md", ROOT / "docs" / "coming-from-fastmcp.md")
MARKED = re.compile(r"(?s)(<!-- measured: (\w+) ([^\n]*?) -->\n)(.*?)(<!-- end -->)")
COUNTS = ("measure", "on the original", "on Carrel", "date")
#: Reasons of failures: a pattern of the test's or program's name and its error, what it needs, and what to use instead.
REASONS: tuple[tuple[str, str, str], ...] = (
    (
        r"experimental[./]|\btasks?\b|task_|_task|Task",
        "tasks of `mcp` 1, or the extension for tasks",
        "[tasks](tasks.md)",
    ),
    (r"dispatcher|runner", "dispatchers and the runner of `mcp` 2", "`Server.run` with a pair of streams"),
    (r"[Tt]elemetry|otel|opentelemetry|[Tt]rac(er|ing)", "traces of the package", "[observability](observability.md)"),
    (r"[-\[]trio\b", "trio", "asyncio"),
    (r"(attribute|name) '_|does not have the attribute|has no attribute '\w+'$", "private names, or replaced ones", ""),
    (r"(Server|Client)Stream'?|__aiter__|client_spy", "messages of transports' streams", "a pair of streams of anyio"),
    (
        r"Mirrored|cannot import name|No module named|NameError",
        "modules and names that are not mirrored",
        "the table above",
    ),
    (r"Assert|DID NOT|Regex", "the exact words of an error, log lines or calls", ""),
)
OTHER = ("other behaviour", "")
RESULTS = HOME / "results"


def keep(row: str, result: Result) -> None:
    """Keep the result of a measure, with the date."""
    result.date = datetime.date.today().isoformat()
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{row}.json").write_text(json.dumps(dataclasses.asdict(result), indent=1))


def kept(row: str) -> Result:
    """Return the kept result of a measure."""
    return Result(**json.loads((RESULTS / f"{row}.json").read_text()))


def write() -> None:
    """Write the tables of the kept results into the documentation."""
    for page in PAGES:
        page.write_text(MARKED.sub(replaced, page.read_text()))


def replaced(found: re.Match[str]) -> str:
    head, kind, rows, before, end = found.groups()
    results = {row: kept(row) for row in rows.split() if (RESULTS / f"{row}.json").exists()}
    if not results or (kind in ("reasons", "failures", "omitted") and len(results) < len(rows.split())):
        return found[0]
    if kind == "counts":
        lines = (merged(row, results.get(row), before) for row in rows.split())
        return f"{head}\n{table(COUNTS, [])}{''.join(lines)}\n{end}"
    return f"{head}\n{render(kind, list(results.items()))}\n{end}"


def merged(row: str, result: Result | None, before: str) -> str:
    """Return the lines of a measure's counts: of its result, or else its lines of an earlier table."""
    if result is None:
        return "".join(line for line in before.splitlines(keepends=True) if line.startswith(f"| `{row}`:"))
    return table(COUNTS, list(counts(row, result))).partition("---")[2].partition("\n")[2]


def render(kind: str, results: Sequence[tuple[str, Result]]) -> str:
    """Return a table: ``reasons`` or messages of ``failures``, ``omitted`` files, or all ``lines`` of a measure."""
    if kind == "reasons":
        return table(("number", "needs", "instead"), reasons([result for _, result in results]))
    if kind == "failures":
        return failures_table([failure for _, result in results for failure in result.failures])
    if kind == "omitted":
        lines = [(row.removeprefix("suite-"), cell) for row, result in results for cell, *_ in result.lines]
        return table(("package", "files"), [(row, cell[10:]) for row, cell in lines if cell[:8] == "left out"])
    return "".join(f"{table(result.columns, result.lines)}\nMeasured on {result.date}.\n" for _, result in results)


def counts(row: str, result: Result) -> Iterator[tuple[str, object, str, str]]:
    """Yield the figures of a measure: its name, what the original does, what Carrel does, and the date."""
    if row.startswith("examples"):
        for what, revision, number, start, lists, answers, _ in result.lines:
            when = f" ({revision})" if revision else ""
            same = (
                f"{lists} have the same lists, {answers} give the same answers" if revision else f"{answers} the same"
            )
            yield f"`{row}`: programs that {what}{when}", number, f"{start} start, {same}", result.date
    elif row.startswith("snippets"):
        _, original, found = result.lines[0]
        yield f"`{row}`: snippets whose imports resolve", original, str(found), result.date
    else:
        for name, original, found in result.lines:
            if name == "all" or str(name).startswith(PART):
                what = "own tests that pass" if name == "all" else str(name)
                share = f" ({100 * int(str(found)) // int(str(original))} %)" if original else ""
                yield f"`{row}`: {what}", original, f"{found}{share}", result.date


def reasons(results: Sequence[Result]) -> list[tuple[int, str, str]]:
    """Return the reasons of the failures, the most frequent first: number, what is needed, and what to use instead."""
    found = Counter(reason(name, why) for result in results for name, why in dict(result.failures).items())
    return sorted(((number, *key) for key, number in found.items()), key=lambda line: (line[1:] == OTHER, -line[0]))


def reason(name: str, why: str) -> tuple[str, str]:
    text = f"{name}: {why}"
    return next(((needs, instead) for pattern, needs, instead in REASONS if re.search(pattern, text)), OTHER)
