"""The command: `python -m benchmarks.soak`. See docs/benchmarks.md."""

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import IO

from ..processes import free_port
from .curve import curve
from .honest import CLIENTS
from .server import fill

#: What honest clients may have to wait for an answer, in milliseconds.
ALLOWED_MS = 250.0


class Measures:
    """Measurements of each second."""

    def __init__(self) -> None:
        self.memory: list[tuple[float, float]] = []
        self.descriptors: list[int] = []
        self.medians: list[float] = []
        self.worst: list[float] = []
        self.answers = 0
        self.problems: list[str] = []

    def follow(self, output: IO[str]) -> None:
        """Read the reports of the honest clients until they exit."""
        for line in output:
            count, middle, worst, failed, *what = line.split(maxsplit=4)
            self.answers += int(count)
            self.medians.append(float(middle))
            self.worst.append(float(worst))
            self.problems += what * bool(int(failed))

    def look(self, pid: int, second: float) -> None:
        """Note memory and descriptors of the server."""
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        self.memory.append((second, pages * os.sysconf("SC_PAGE_SIZE") / 1024**2))
        self.descriptors.append(len(os.listdir(f"/proc/{pid}/fd")))

    def report(self, cpu: float) -> str:
        """Return the figures as a table in Markdown."""
        memory = [value for _, value in self.memory]
        slow = sum(value > ALLOWED_MS for value in self.worst)
        late = statistics.quantiles(self.worst, n=100)[98] if len(self.worst) > 1 else 0.0
        rows = [
            ("duration", f"{self.memory[-1][0] / 60:.1f} minutes"),
            ("memory at the start, at most, at the end", f"{memory[0]:.0f}, {max(memory):.0f}, {memory[-1]:.0f} MiB"),
            (
                "descriptors at the start, at most, at the end",
                f"{self.descriptors[0]}, {max(self.descriptors)}, {self.descriptors[-1]}",
            ),
            ("processor time of the server", f"{cpu:.0f} s"),
            ("answers to honest clients", f"{self.answers:,}"),
            ("of these wrong or missing", ": ".join([str(len(self.problems)), *self.problems[:1]])),
            ("time of an answer, median", f"{statistics.median(self.medians):.1f} ms"),
            ("longest of each second: median, 99th percentile, longest of all",
             f"{statistics.median(self.worst):.0f}, {late:.0f}, {max(self.worst):.0f} ms"),
            (f"seconds with an answer over {ALLOWED_MS:.0f} ms", f"{slow} of {len(self.worst)}"),
        ]  # fmt: skip
        return "\n".join(["| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in rows)])


def main() -> int:
    """Run the soak; 1 if an honest client was not served."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, help="how long it takes (30)")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="draw the memory of the server")
    parser.add_argument("--only", action="append", default=[], metavar="ATTACK", help="an attack by name; repeatable")
    parser.add_argument("--peace", action="store_true", help="no attacks: what the honest clients see without any")
    options = parser.parse_args()
    measures = Measures()
    here = [sys.executable, "-m"]
    port = free_port()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="carrel-soak-")))
        fill(folder)
        log = stack.enter_context(tempfile.TemporaryFile())

        def start(module: str, *more: str, output: int | IO[bytes] = subprocess.DEVNULL) -> subprocess.Popen[str]:
            command = [*here, f"benchmarks.soak.{module}", *more]
            process = subprocess.Popen(command, stdout=output, stderr=log, text=True)
            stack.callback(process.wait)
            stack.callback(process.kill)
            return process

        server = start("server", str(folder), str(port))
        time.sleep(2)
        honest = start("honest", str(port), str(folder), output=subprocess.PIPE)
        assert honest.stdout is not None
        threading.Thread(target=measures.follow, args=(honest.stdout,), daemon=True).start()
        time.sleep(3)
        if not options.peace:
            start("attacks", str(port), str(folder), *options.only)
        begun = time.perf_counter()
        cpu = time.clock_gettime((~server.pid << 3) | 2)
        while (second := time.perf_counter() - begun) < options.minutes * 60 and server.poll() is None:
            measures.look(server.pid, second)
            if sys.stderr.isatty() or int(second) % 30 == 0:
                print(
                    f"\r{second:6.0f} s  {measures.memory[-1][1]:5.0f} MiB  {measures.descriptors[-1]:5} descriptors  "
                    f"longest {max(measures.worst[-30:], default=0):5.0f} ms  {len(measures.problems)} missing  ",
                    end="" if sys.stderr.isatty() else "\n", file=sys.stderr, flush=True,
                )  # fmt: skip
            time.sleep(1)
        if server.poll() is not None:
            log.seek(0)
            print(log.read().decode(errors="replace")[-3000:], file=sys.stderr)
            print("the server ended", file=sys.stderr)
            return 1
        print()
        print(measures.report(time.clock_gettime((~server.pid << 3) | 2) - cpu))
    if options.svg is not None:
        title = f"Memory of the server, all attacks at once, {CLIENTS} honest clients beside them"
        options.svg.write_text(curve(title, "MiB", measures.memory))
    return 1 if measures.problems else 0


if __name__ == "__main__":
    sys.exit(main())
