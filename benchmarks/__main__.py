"""The command: `python -m benchmarks`."""

import argparse
import contextlib
import resource
import sys
from collections.abc import Sequence
from pathlib import Path

from . import report
from .client_measures import ClientFailed, start
from .client_rows import CLIENT_ROWS
from .measures import Pool, measure_start
from .messages import WrongAnswer
from .processes import CLIENTS, CONTENDERS, DEFAULT, GATEWAYS, Contender, ServerFailed
from .report import Cell, Line
from .rows import GATEWAY_ROWS, ROWS, Row


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options of the command."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Compare Carrel with the official SDK, FastMCP and a bare server. See docs/benchmarks.md.",
    )
    parser.add_argument("--client", action="store_true", help="compare the clients, each at the same server")
    parser.add_argument("--gateway", action="store_true", help="compare gateways, each before the bare server")
    parser.add_argument("--quick", action="store_true", help="about a minute: one short round, no extra rows")
    parser.add_argument("--only", action="append", metavar="ROW", help="rows whose name begins with this; repeatable")
    parser.add_argument(
        "--servers", help=f"or clients, or gateways; comma-separated, out of {', '.join({**CONTENDERS, **GATEWAYS})}"
    )
    parser.add_argument("--rounds", type=int, help="rounds in which the servers take turns (3; quick: 1)")
    parser.add_argument("--seconds", type=float, help="length of one measurement under load (1; quick: 0.25)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was measured")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables for a document")
    parser.add_argument("--list", action="store_true", help="show the rows and stop")
    options = parser.parse_args(arguments)
    options.rounds = options.rounds or (1 if options.quick else 3)
    options.seconds = options.seconds or (0.25 if options.quick else 1.0)
    options.contenders = GATEWAYS if options.gateway else CLIENTS if options.client else CONTENDERS
    options.servers = (options.servers or ",".join(GATEWAYS if options.gateway else DEFAULT)).split(",")
    unknown = [name for name in options.servers if name not in options.contenders]
    if unknown:
        parser.error(f"no such {'client' if options.client else 'server'}: {', '.join(unknown)}")
    options.rows = choose(options)
    if not options.rows:
        parser.error("no such row; --list shows them")
    return options


def choose(options: argparse.Namespace) -> list[Row]:
    """Return the selected rows."""
    rows = rows_of(options)
    if options.only:
        return [row for row in rows if any(row.name.startswith(name) for name in options.only)]
    return [row for row in rows if not (options.quick and row.extra)]


def rows_of(options: argparse.Namespace) -> Sequence[Row]:
    """Return the rows of the selected comparison."""
    return GATEWAY_ROWS if options.gateway else CLIENT_ROWS if options.client else ROWS


def compare(row: Row, contenders: Sequence[Contender], rounds: int, pool: Pool) -> Line:
    """Measure one row: the servers take turns, so that noise hits all of them alike."""
    line = Line(row, {contender.name: Cell() for contender in contenders})
    for number in range(rounds):
        for contender in contenders:
            cell = line.cells[contender.name]
            if cell.failure:
                continue
            progress(f"{row.name}: round {number + 1} of {rounds}, {contender.name}")
            try:
                cell.samples.append(row.measure(contender, pool))
            except Exception as failure:
                cell.failure = describe(failure)
                cell.samples.append(None)
    return line


def describe(failure: BaseException) -> str:
    """One line about why a measurement failed."""
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    return f"{type(failure).__name__}: {' '.join(str(failure).split())[:400]}"


def progress(words: str) -> None:
    """Print progress on stderr."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{words}", end="", file=sys.stderr, flush=True)
    else:
        print(words, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison; returns the exit code."""
    options = parse(arguments)
    if options.list:
        for row in rows_of(options):
            print(f"{row.name:22}{row.title}{' (not in quick runs)' if row.extra else ''}")
        return 0
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    contenders: list[Contender] = [options.contenders[name] for name in options.servers]
    versions = {contender.name: contender.version() for contender in contenders}
    with contextlib.closing(Pool(options.seconds)) as pool:
        for contender in () if options.gateway else contenders:  # the first start of all writes bytecode
            with contextlib.suppress(ServerFailed, ClientFailed, WrongAnswer):
                (start("stdio") if options.client else measure_start)(contender, pool)
    lines: list[Line] = []
    with contextlib.closing(Pool(options.seconds)) as pool, contextlib.suppress(KeyboardInterrupt):
        for row in options.rows:
            lines.append(compare(row, contenders, options.rounds, pool))  # noqa: PERF401 - kept when interrupted
    progress("")
    print(f"{', '.join(versions.values())}; {report.machine()}\n")
    print(report.text(lines, options.servers))
    if options.json:
        options.json.write_text(report.document(lines, versions))
    if options.markdown:
        options.markdown.write_text(report.markdown(lines, options.servers, versions))
    return 0


if __name__ == "__main__":
    sys.exit(main())
