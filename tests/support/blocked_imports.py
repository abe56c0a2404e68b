"""Program that runs commands of Carrel in forks of itself, in which some packages cannot be imported.

Its input is JSON lines, ``[[arguments], [blocked modules]]``. For each it prints a JSON line with the exit code, the
output, and the optional modules whose import was tried, each with the module of Carrel that tried it. Arguments that
begin with ``python`` are those of a Python program instead.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import runpy
import sys
import tempfile
import tomllib
import traceback
from importlib import import_module
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any

import carrel
from carrel.extras import MODULES

OPTIONAL = {module for modules in MODULES.values() for module in modules}


class Blocker(MetaPathFinder):
    """Finder that finds what another one does, without the blocked modules; it notes which optional ones are sought."""

    def __init__(self, finder: Any, blocked: list[str], note: Path) -> None:
        self._finder = finder
        self._blocked = set(blocked)
        self._note = note

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name in OPTIONAL:
            with self._note.open("a") as file:
                file.write(f"{name} {importer()}\n")
        return None if name in self._blocked else self._finder.find_spec(name, path, target)

    def invalidate_caches(self) -> None:
        if hasattr(self._finder, "invalidate_caches"):
            self._finder.invalidate_caches()

    def __getattr__(self, name: str) -> Any:  # such as find_distributions
        return getattr(self._finder, name)


def importer() -> str:
    """Return the name of the module of Carrel that is importing, or an empty text if none is."""
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        name: str = frame.f_globals.get("__name__", "")
        if name.startswith("carrel."):
            return name
    return ""


@functools.cache
def layers() -> list[list[str]]:
    """Return the packages of each layer, the highest first."""
    project = tomllib.loads(Path(__file__).parents[2].joinpath("pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    found = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    return [re.findall(r"[\w.]+", packages) for packages in found]


def layer_of(module: str) -> int:
    """Return the layer of a module; 0 is the highest. Lower ones are imported first, as what tries an optional module
    is imported again by each module that imports it."""
    package = ".".join(module.split(".")[:2])
    return next((place for place, packages in enumerate(layers()) if package in packages), 0)


def import_modules_that_try_no_optional_one(note: Path) -> None:
    """Import the modules of Carrel once for all forks, except those whose import tries an optional module."""
    finders = sys.meta_path[:]
    sys.meta_path[:] = [Blocker(finder, list(OPTIONAL), note) for finder in finders]
    root = Path(carrel.__file__).parent
    files = {*root.rglob("*.py")} - {*root.rglob("__main__.py")}
    names = [".".join(file.relative_to(root.parent).with_suffix("").parts).removesuffix(".__init__") for file in files]
    failed: tuple[str, ...] = ()  # packages, whose modules fail as well
    for module in sorted(names, key=lambda name: (-layer_of(name), name)):
        if module.startswith(failed):
            continue
        before = set(sys.modules)
        note.write_text("")
        try:
            import_module(module)
        except ImportError:
            failed += (f"{module}.",)
        if note.read_text():
            for name in set(sys.modules) - before:
                package, _, attribute = name.rpartition(".")
                vars(sys.modules.get(package, carrel)).pop(attribute, None)
                del sys.modules[name]
    sys.meta_path[:] = finders


def run(arguments: list[str]) -> int:
    if arguments[0] != "python":
        from carrel.cli import main

        return main(arguments)
    sys.argv = arguments[1:]
    try:
        if arguments[1] == "-m":
            del sys.argv[0]
            runpy.run_module(arguments[2], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(arguments[1], run_name="__main__")
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return ended.code or 0
        sys.stderr.write(f"{ended.code}\n")
        return 1
    except Exception:
        traceback.print_exc()
        return 1
    return 0


def fork(arguments: list[str], blocked: list[str], folder: Path) -> dict[str, Any]:
    """Run a command in a fork, and return what came of it."""
    output, note = folder / "output", folder / "note"
    note.write_text("")
    child = os.fork()
    if child == 0:
        code = 70
        with contextlib.suppress(BaseException):
            null, written = os.open(os.devnull, os.O_RDONLY), os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(null, 0)
            os.dup2(written, 1)
            os.dup2(written, 2)
            sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
            sys.meta_path[:] = [Blocker(finder, blocked, note) for finder in sys.meta_path]
            try:
                code = run(arguments)
            except SystemExit as ended:
                code = ended.code if isinstance(ended.code, int) else 1
            except BaseException:
                traceback.print_exc()
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
    _, status = os.waitpid(child, 0)
    tried = sorted(line.split(" ") for line in set(note.read_text().splitlines()))
    return {"code": os.waitstatus_to_exitcode(status), "output": output.read_text(errors="replace"), "tried": tried}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        import_modules_that_try_no_optional_one(Path(place) / "note")
        for line in sys.stdin:
            print(json.dumps(fork(*json.loads(line), Path(place))), flush=True)
