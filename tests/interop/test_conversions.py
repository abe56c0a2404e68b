"""Arguments and results of tools are converted as the official Python SDK 1.x converts them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from carrel import Server
from carrel.transports import memory
from interop import conversions
from interop.conversions import ARGUMENTS, RESULTS, giving, taking
from support.memory_client import NOVEMBER, call
from support.parties import python


async def test_arguments_and_results_are_those_of_the_official_sdk() -> None:
    command = [python("1"), str(Path(conversions.__file__))]
    printed = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    theirs = json.loads(printed.stdout)
    arguments: list[Any] = []
    for kind, sent in ARGUMENTS:
        app = Server("s")
        app.tools.add(taking(kind), name="t")
        async with memory.connect(app, NOVEMBER) as peer:
            found = await call(peer, "t", value=sent)
            arguments.append(None if found.get("isError") else found["content"][0]["text"])
    results: list[Any] = []
    for kind, value in RESULTS:
        app = Server("s")
        app.tools.add(giving(kind, value), name="t")
        async with memory.connect(app, NOVEMBER) as peer:
            results.append((await call(peer, "t")).get("structuredContent"))
    assert by_case(ARGUMENTS, arguments) == by_case(ARGUMENTS, theirs["arguments"])
    assert by_case(RESULTS, results) == by_case(RESULTS, theirs["results"])


def by_case(cases: list[tuple[str, Any]], found: list[Any]) -> dict[str, Any]:
    """Return what was found by case, so that a difference names it."""
    return {f"{kind} {value!r}": each for (kind, value), each in zip(cases, found, strict=True)}
