"""Measures how much of ``mcp`` and ``fastmcp`` runs on Carrel: ``python tests/compat/measures [ROW …]``."""

from __future__ import annotations

import argparse
import functools
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # the folder of tests

from compat.measures import examples, servers, snippets, start, suites
from compat.measures.originals import PACKAGES, Checkout
from compat.measures.report import Result

ROWS: dict[str, Callable[..., Result]] = {}
ROWS |= {f"examples-{package}": functools.partial(examples.measure, package) for package in PACKAGES}
ROWS |= {f"snippets-{package}": functools.partial(snippets.measure, package) for package in PACKAGES}
ROWS |= {"servers": servers.measure, "start": start.measure}
ROWS |= {f"suite-{package}": functools.partial(suites.measure, package) for package in PACKAGES}


def main() -> None:
    """Run measures and print their tables."""
    reader = argparse.ArgumentParser(prog="measures", description=__doc__)
    reader.add_argument("row", choices=[*ROWS, "all"], help="the measure to run")
    reader.add_argument(
        "parts", nargs="*", metavar="PART", help="only programs, files or servers with this in the name"
    )
    reader.add_argument(
        "--checkout", type=Path, default=Checkout().folder, help="the checkout of Carrel to measure (default: this one)"
    )
    options = reader.parse_args()
    for name in ROWS if options.row == "all" else [options.row]:
        begun = time.monotonic()
        result = ROWS[name](Checkout(options.checkout.resolve()), options.parts)
        print(result.markdown(), flush=True)
        print(f"{name}: {time.monotonic() - begun:.0f} s", file=sys.stderr)


main()
