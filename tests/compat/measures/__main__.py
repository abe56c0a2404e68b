"""Measures how much of ``mcp`` and ``fastmcp`` runs on Carrel: ``python tests/compat/measures [ROW …]``."""

from __future__ import annotations

import argparse
import functools
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # the folder of tests

from compat.measures import clients, examples, servers, snippets, start, suites, summary
from compat.measures.originals import PACKAGES, Checkout
from compat.measures.report import Result

ROWS: dict[str, Callable[..., Result]] = {}
ROWS |= {f"examples-{package}": functools.partial(examples.measure, package) for package in PACKAGES}
ROWS |= {f"snippets-{package}": functools.partial(snippets.measure, package) for package in PACKAGES}
ROWS |= {"servers": servers.measure, "clients": clients.measure, "start": start.measure}
ROWS |= {f"suite-{package}": functools.partial(suites.measure, package) for package in PACKAGES}


def main() -> None:
    """Run measures and print their tables, or write the tables of earlier runs into the documentation."""
    reader = argparse.ArgumentParser(prog="measures", description=__doc__)
    reader.add_argument("row", nargs="?", choices=[*ROWS, "all"], help="the measure to run")
    reader.add_argument(
        "parts", nargs="*", metavar="PART", help="only programs, files or servers with this in the name"
    )
    reader.add_argument(
        "--checkout", type=Path, default=Checkout().folder, help="the checkout of Carrel to measure (default: this one)"
    )
    reader.add_argument("--write", action="store_true", help="write the tables of whole measures into docs/")
    options = reader.parse_args()
    if options.row is None and not options.write:
        reader.error("name a measure, or --write")
    for name in ROWS if options.row == "all" else [options.row] if options.row else []:
        begun = time.monotonic()
        result = ROWS[name](Checkout(options.checkout.resolve()), options.parts)
        print(result.markdown(), flush=True)
        print(f"{name}: {time.monotonic() - begun:.0f} s", file=sys.stderr)
        if not options.parts:
            summary.keep(name, result)
    if options.write:
        summary.write()


main()
