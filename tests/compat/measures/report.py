"""Results of a measure, as Markdown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

__all__ = ["Result", "failures_table", "table"]

MAX_NAMED = 4


@dataclass
class Result:
    """Result of a measure: lines of its table, the failures by reason, and the date if the result is kept."""

    title: str
    columns: Sequence[str]
    lines: list[Sequence[object]] = field(default_factory=list)
    failures: list[tuple[str, str]] = field(default_factory=list)
    date: str = ""

    def markdown(self) -> str:
        """Return the table, and a table of the failures grouped by reason."""
        text = f"### {self.title}\n\n{table(self.columns, self.lines)}"
        return f"{text}\n{failures_table(self.failures)}" if self.failures else text


def failures_table(failures: Sequence[tuple[str, str]]) -> str:
    """Return a table of failures grouped by reason, the most frequent first."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name, reason in failures:
        if name not in groups[reason]:
            groups[reason].append(name)
    ranked = sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))
    rows = [(len(names), f"`{reason}`", shortened(names)) for reason, names in ranked]
    return table(("number", "reason", "where"), rows)


def shortened(names: Sequence[str]) -> str:
    """Return the first names of a list, and how many more there are."""
    more = f", and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return ", ".join(names[:MAX_NAMED]) + more


def table(columns: Sequence[str], lines: Sequence[Sequence[object]]) -> str:
    """Return a table in Markdown."""
    rows = [columns, ["---"] * len(columns), *lines]
    cells = ([str(cell).replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows)
    return "".join(f"| {' | '.join(row)} |\n" for row in cells)
