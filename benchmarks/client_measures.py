"""Client measurements: each client runs in a separate process, which does the work and reports the figures.

The work is in clients/work.py. Processor time covers only the client process: servers run in other processes.
"""

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .measures import Measure, Pool
from .messages import HANDSHAKE, WrongAnswer
from .processes import CLIENTS, CONTENDERS, ENVIRONMENT, SCRIPTS, Contender
from .window import Sample

CLIENT_SCRIPTS = Path(__file__).resolve().parent / "clients"

LIMIT = 600.0
"""Seconds after which a client that has not done its work counts as failed."""

MANY = 1_000
"""Calls in flight, and resources that are watched."""

STEPS = (1_000, 10_000, 100_000)
"""After how many calls memory is looked at."""

Job = dict[str, Any]


class ClientFailed(Exception):
    """A client did not do its work."""


def bare(pool: Pool, transport: str, path: str = "/mcp") -> str:
    """Where the bare server is: a command, or the URL of the one that runs."""
    if transport == "stdio":
        contender = CONTENDERS["bare"]
        return json.dumps([str(contender.interpreter()), str(SCRIPTS / contender.stdio), "stdio", "full"])
    return f"http://127.0.0.1:{pool.process(CONTENDERS['bare'], 'http', HANDSHAKE).port}{path}"


def events(pool: Pool, transport: str) -> str:
    """Where the bare server is that answers with streams of events."""
    return bare(pool, transport, "/events")


def quick(pool: Pool, transport: str) -> str:
    """Where a server is that does not have to be waited for."""
    if transport == "stdio":
        return json.dumps([str(CONTENDERS["bare"].interpreter()), "-I", "-S", str(SCRIPTS / "quick_stdio.py")])
    return bare(pool, transport)


def announcing(pool: Pool, transport: str) -> str:
    """Where a server is that announces changes of 1,000 resources: Carrel's, for all clients."""
    if transport == "stdio":
        contender = CONTENDERS["carrel"]
        return json.dumps([str(contender.interpreter()), str(SCRIPTS / contender.stdio), "stdio", "full"])
    return f"http://127.0.0.1:{pool.process(CONTENDERS['carrel'], 'http', HANDSHAKE).port}/mcp"


def run(contender: Contender, transport: str, address: str, revision: str, job: Job) -> dict[str, Any]:
    """Run a job in a client process, and return its report.

    Raises:
        ClientFailed: The client failed.
        WrongAnswer: The client received a wrong response.
    """
    script = CLIENT_SCRIPTS / (contender.stdio if transport == "stdio" else contender.http)
    command = [contender.interpreter(), script, transport, address, revision, json.dumps(job)]
    try:
        done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        raise ClientFailed(f"not done after {LIMIT:.0f} s") from None
    if done.returncode:
        lines = [line.strip(" |+-") for line in done.stderr.splitlines()]
        last = next((line for line in reversed(lines) if line), "nothing on stderr")
        raise (WrongAnswer if "WrongAnswer" in last else ClientFailed)(f"exited with {done.returncode}: {last}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


Address = Callable[[Pool, str], str]


def start(transport: str, revision: str = "auto") -> Measure:
    """Processor time from the start of the process to the first answer; wall time too."""

    def measure(contender: Contender, pool: Pool) -> Sample:
        address = quick(pool, transport)
        begun = time.perf_counter()
        result = run(contender, transport, address, revision, {"job": "start"})
        return Sample(result["cpu"], result["answered"] - begun)

    return measure


def first(transport: str, since: str, revision: str = "auto") -> Measure:
    """Wall time to the first answer, since the import has "begun", or is over ("imported")."""

    def measure(contender: Contender, pool: Pool) -> Sample:
        result = run(contender, transport, quick(pool, transport), revision, {"job": "start"})
        return Sample(result["answered"] - result[since])

    return measure


def load(transport: str, kind: str, in_flight: int, revision: str = HANDSHAKE, address: Address = bare) -> Measure:
    """Processor time of one request."""

    def measure(contender: Contender, pool: Pool) -> Sample:
        job = {"job": "load", "kind": kind, "in_flight": in_flight, "seconds": pool.seconds}
        result = run(contender, transport, address(pool, transport), revision, job)
        return Sample(result["cpu"], result["wall"], result["p50"], result["p99"], result["count"])

    return measure


def flight(transport: str, revision: str = HANDSHAKE) -> Measure:
    """Processor time of a thousand requests that are sent at once."""

    def measure(contender: Contender, pool: Pool) -> Sample:
        job = {"job": "flight", "number": MANY, "times": 5}
        result = run(contender, transport, bare(pool, transport), revision, job)
        return Sample(result["cpu"], result["wall"])

    return measure


def watch(transport: str, revision: str = HANDSHAKE) -> Measure:
    """Processor time of subscribing to a thousand resources; wall time too."""

    def measure(contender: Contender, pool: Pool) -> Sample:
        job = {"job": "watch", "number": MANY, "times": 1}
        result = run(contender, transport, announcing(pool, transport), revision, job)
        return Sample(result["cpu"], result["wall"])

    return measure


def hear(transport: str, revision: str = HANDSHAKE) -> Measure:
    """Wall time from asking for a change to hearing of it, of one of a thousand resources that are watched."""

    def measure(contender: Contender, pool: Pool) -> Sample:
        job = {"job": "watch", "number": MANY, "times": 11}
        return Sample(run(contender, transport, announcing(pool, transport), revision, job)["heard"])

    return measure


def memory(transport: str, step: int) -> Measure:
    """Resident memory after the first step, and how much more it is than after the step before, after the others."""

    def measure(contender: Contender, pool: Pool) -> Sample:
        key = (contender.name, transport)
        if key not in resident:
            job = {"job": "memory", "steps": STEPS}
            resident[key] = run(contender, transport, bare(pool, transport), HANDSHAKE, job)["resident"]
        return Sample(resident[key][step] - (resident[key][step - 1] if step else 0), count=STEPS[step])

    return measure


resident: dict[tuple[str, str], list[int]] = {}
"""What one run has found, which takes minutes: for all rows and rounds."""

__all__ = ["CLIENTS", "ClientFailed", "first", "flight", "hear", "load", "memory", "run", "start", "watch"]
