"""The table that is printed, and the same figures as JSON or Markdown."""

import json
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from statistics import median

from .rows import ROWS, SCALES, Row
from .window import Sample

FLOOR = "bare"
OURS = "carrel"
OFFICIAL = "official"


@dataclass(slots=True)
class Cell:
    """Results of one server or client in one row: a sample per round, or the reason why there are no samples."""

    samples: list[Sample | None] = field(default_factory=list)
    failure: str | None = None

    def value(self) -> float | None:
        """The median over the rounds."""
        values = [sample.value for sample in self.samples if sample is not None]
        return median(values) if values else None


@dataclass(slots=True)
class Line:
    """One row with what every server did in it."""

    row: Row
    cells: dict[str, Cell]

    def ratio(self, server: str) -> float | None:
        """Median over the rounds of the ratio to the bare server in the same round."""
        if FLOOR not in self.cells:
            return None
        pairs = zip(self.cells[server].samples, self.cells[FLOOR].samples, strict=False)
        ratios = [ours.value / floor.value for ours, floor in pairs if ours and floor and floor.value > 0]
        return median(ratios) if ratios else None

    def times(self) -> float | None:
        """Median over the rounds of the official SDK's cost divided by Carrel's cost in the same round."""
        if OURS not in self.cells or OFFICIAL not in self.cells:
            return None
        pairs = zip(self.cells[OFFICIAL].samples, self.cells[OURS].samples, strict=False)
        ratios = [theirs.value / ours.value for theirs, ours in pairs if theirs and ours and ours.value > 0]
        return median(ratios) if ratios else None

    def keeps_times(self) -> bool | None:
        """Whether the ratio of the official SDK's cost to Carrel's is at least ``wanted``; None if unknown."""
        times = self.times()
        return None if times is None or self.row.wanted is None else times >= self.row.wanted

    def keeps_ratio(self) -> bool | None:
        """Whether Carrel costs at most the allowed multiple of the bare server; None if unknown."""
        if self.row.absolute or self.row.allowed is None or OURS not in self.cells:
            return None
        ratio = self.ratio(OURS)
        return None if ratio is None else ratio <= self.row.allowed

    def keeps_budget(self) -> bool | None:
        """Whether Carrel stays within the absolute budget on this machine; None if unknown."""
        if self.row.budget is None or OURS not in self.cells:
            return None
        value = self.cells[OURS].value()
        return None if value is None else value * SCALES[self.row.unit] <= self.row.budget


VERDICTS = {None: "", True: " met", False: " MISSED"}


def figure(value: float | None, places: int = 3) -> str:
    """A number with three significant digits and no exponent."""
    if value is None:
        return "-"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.{max(0, places - len(str(int(abs(value)))))}f}"


def table(lines: Sequence[Line], servers: Sequence[str]) -> list[list[str]]:
    """The cells of the printed table, heading first."""
    rest = [server for server in servers if server != FLOOR]
    heading = ["row", "unit", *servers, *(f"{server}/bare" for server in rest)]
    client = not any(line.row in ROWS for line in lines)
    heading += ["official/carrel", "wanted", "budget"] if client else ["allowed", "budget"]
    body = []
    for line in lines:
        row = line.row
        scale = SCALES[row.unit]
        values = {server: line.cells[server].value() for server in servers}
        body.append([
            row.title,
            row.unit,
            *("failed" if (value := values[server]) is None else figure(value * scale) for server in servers),
            *(figure(line.ratio(server), 2) + "x" if line.ratio(server) else "-" for server in rest),
            *(
                (
                    figure(line.times(), 2) + "x" if line.times() else "-",
                    figure(row.wanted, 2) + "x" + VERDICTS[line.keeps_times()] if row.wanted else "-",
                )
                if client
                else (figure(row.allowed, 2) + "x" + VERDICTS[line.keeps_ratio()] if keeps_allowed(row) else "-",)
            ),
            figure(row.budget) + VERDICTS[line.keeps_budget()] if row.budget else "-",
        ])  # fmt: skip
    return [heading, *body]


def keeps_allowed(row: Row) -> bool:
    """Say whether a row has a ratio to keep."""
    return row.allowed is not None and not row.absolute


def text(lines: Sequence[Line], servers: Sequence[str]) -> str:
    """The table for a terminal, then wall times, then failures."""
    parts = [align(table(lines, servers)), "", align(latencies(lines, servers))]
    parts.extend(["", *failures(lines)])
    return "\n".join(parts).rstrip() + "\n"


def latencies(lines: Sequence[Line], servers: Sequence[str]) -> list[list[str]]:
    """Wall time per request and the two percentiles of each server, in the unit of the row."""
    body = []
    for line in lines:
        scale = SCALES[line.row.unit]
        cells = [line.row.title, line.row.unit]
        for server in servers:
            samples = [sample for sample in line.cells[server].samples if sample and sample.wall is not None]
            if not samples:
                cells.append("-")
                continue
            walls = median(sample.wall for sample in samples if sample.wall is not None)
            figures = [figure(walls * scale)]
            for name in ("p50", "p99"):
                known = [getattr(sample, name) for sample in samples if getattr(sample, name) is not None]
                figures.append(figure(median(known) * scale) if known else "-")
            cells.append(" / ".join(figures))
        if any(cell != "-" for cell in cells[2:]):
            body.append(cells)
    return [["wall time each / p50 / p99", "unit", *servers], *body]


def failures(lines: Sequence[Line]) -> list[str]:
    """One line for every failed row of a server."""
    return [
        f"FAILED {server}, {line.row.name}: {cell.failure}"
        for line in lines
        for server, cell in line.cells.items()
        if cell.failure
    ]


def align(rows: Sequence[Sequence[str]]) -> str:
    """Columns of equal width: the first flush left, the others flush right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if n == 0 else cell.rjust(width)
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def markdown(lines: Sequence[Line], servers: Sequence[str], versions: dict[str, str]) -> str:
    """The tables for a document."""

    def grid(rows: Sequence[Sequence[str]]) -> str:
        heading, *body = rows
        ruler = ["---", *(["---:"] * (len(heading) - 1))]
        return "\n".join("| " + " | ".join(cells) + " |" for cells in (heading, ruler, *body))

    parts = [", ".join(versions.values()) + f"; {machine()}", grid(table(lines, servers))]
    parts.append(grid(latencies(lines, servers)))
    if failed := failures(lines):
        parts.append("\n".join(f"- {line}" for line in failed))
    return "\n\n".join(parts) + "\n"


def document(lines: Sequence[Line], versions: dict[str, str]) -> str:
    """Everything that was measured, as JSON. Values are in seconds, bytes or counts."""
    rows = [
        {
            "name": line.row.name,
            "title": line.row.title,
            "unit": line.row.unit,
            "budget": line.row.budget,
            "allowed_ratio": None if line.row.absolute else line.row.allowed,
            "wanted": line.row.wanted,
            "official/carrel": line.times(),
            "keeps_ratio": line.keeps_ratio(),
            "keeps_budget": line.keeps_budget(),
            "servers": {
                server: {
                    "value": cell.value(),
                    "ratio": line.ratio(server),
                    "failure": cell.failure,
                    "samples": [asdict(sample) if sample else None for sample in cell.samples],
                }
                for server, cell in line.cells.items()
            },
        }
        for line in lines
    ]
    return json.dumps({"machine": machine(), "versions": versions, "rows": rows}, indent=1) + "\n"


def machine() -> str:
    """Where the figures come from."""
    return f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
