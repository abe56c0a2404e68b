"""The packages that are measured: their source distributions, and environments in which the originals run.

Everything is kept below ``.cache/compat``. Each environment also has the packages that Carrel needs, but not Carrel:
``Checkout`` puts the code of a checkout before the installed packages.
"""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from support.forking import forked
from support.parties import ready, run

__all__ = ["HOME", "PACKAGES", "Checkout", "environment", "sources"]

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
HOME = (ROOT / ".cache" / "compat").resolve()
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")

#: At most this many programs run on Carrel at the same time.
FORKS = 16
#: What the test suites of the packages import, besides the package.
TESTING = [
    *(
        "anthropic",
        "openai",
        "google-genai",
        "dirty-equals",
        "fastapi",
        "inline-snapshot",
        "opentelemetry-sdk",
        "pillow",
    ),
    *("psutil", "pydantic-settings", "pyperclip", "pytest", "pytest-env", "pytest-examples", "pytest-httpx"),
    *("pytest-retry", "pytest-timeout", "pytest-xdist", "trio"),
]
#: What is installed for each version of a package, by its name in the folder of environments.
PACKAGES: dict[str, list[str]] = {
    "mcp-1.30.0": ["mcp[cli,rich]==1.30.0", *TESTING],
    "mcp-2.3.0": ["mcp[cli,rich]==2.3.0", "blockbuster", "logfire", *TESTING],
    "fastmcp-3.4.11": ["fastmcp[apps,code-mode,tasks]==3.4.10", "pytest-asyncio", *TESTING],
    "fastmcp-4.1.6": ["fastmcp[apps,code-mode,tasks]==4.1.2", "pytest-asyncio", *TESTING],
}
#: Packages that replace a version installed before, without their requirements, which no registry fulfils.
REPLACING = {
    "fastmcp-3.4.11": ["fastmcp==3.4.11", "fastmcp-slim==3.4.11"],
    "fastmcp-4.1.6": ["fastmcp==4.1.6", "fastmcp-slim==4.1.6"],
}


def sources(package: str) -> Path:
    """Return the folder of a package's source distribution, after downloading it if need be."""
    name, _, version = package.rpartition("-")

    def install(home: Path) -> None:
        run([*PIP, "install", "--quiet", "--target", str(home / "backend"), "hatchling", "uv-dynamic-versioning"], home)
        command = [*PIP, "download", "--quiet", "--no-deps", "--no-build-isolation", "--no-binary", name]
        command += ["--dest", str(home), f"{name}=={version}"]
        done = subprocess.run(  # pip builds the metadata of the package
            command, env={**os.environ, "PYTHONPATH": str(home / "backend")}, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr[-2000:]
        with tarfile.open(home / f"{package}.tar.gz") as archive:
            archive.extractall(home, filter="data")

    return ready(f"sources-{package}", package.encode(), install, HOME) / package


def environment(name: str, packages: list[str] | None = None) -> Path:
    """Return a virtual environment with packages, those of ``PACKAGES`` by default, and the packages of Carrel."""
    wanted = PACKAGES[name] if packages is None else packages

    def fill(home: Path) -> None:
        venv.create(home)
        install = [*PIP, "--python", str(home / "bin" / "python"), "install", "--quiet"]
        run([*install, *wanted, *needed()], cwd=home)
        if name in REPLACING:
            run([*install, "--no-deps", *REPLACING[name]], cwd=home)

    prefix = "python{}.{}".format(*sys.version_info[:2])
    return ready(f"{prefix}-{name}", " ".join([*wanted, *needed(), sys.version]).encode(), fill, HOME)


@functools.cache
def needed() -> list[str]:
    """Return the packages that Carrel needs with its extra ``compat``."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    found, waiting = list(project["dependencies"]), ["compat"]
    while waiting:
        for package in extras[waiting.pop()]:
            inner = re.fullmatch(r"carrel\[(.+)\]", package)
            waiting += inner[1].split(",") if inner else []
            found += [] if inner else [package]
    return found


@dataclass(frozen=True)
class Checkout:
    """Checkout of Carrel that is measured."""

    folder: Path = ROOT

    @property
    def path(self) -> str:
        """The folder with the package ``carrel``."""
        return str(self.folder / "src")

    def forked(self, python: Path, *arguments: str) -> list[str]:
        """Return the command that does what ``carrel run --compat ARGUMENT…`` does, in a fork.

        The process that forks imports nothing of the originals: it is another one than ``forked(python, …)`` has.
        """
        os.environ["PYTHONPATH"] = self.path  # for the process that forks
        return forked(str(python), str(HERE / "launch_carrel.py"), *arguments, at_once=FORKS)

    def command(self, python: Path, *arguments: str) -> list[str]:
        """Return the command that runs ``carrel`` with arguments."""
        return [str(python), "-P", "-m", "carrel", *arguments]

    def environ(self, paths: Sequence[Path] = ()) -> dict[str, str]:
        """Return the environment variables with which a Python finds modules in folders, and Carrel."""
        return {**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, paths), self.path]), "PYTHONWARNINGS": "ignore"}
