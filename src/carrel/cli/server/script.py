"""Inline metadata of Python scripts: the packages that a file requires, and running it in a uv environment with them.

    # /// script
    # requires-python = ">=3.12"
    # dependencies = ["httpx", "rich>=13"]
    # ///

https://packaging.python.org/en/latest/specifications/inline-script-metadata/
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

from carrel import __version__
from carrel.errors import ConfigError

__all__ = ["ScriptMetadata", "enter", "find_uv", "missing", "read_script", "uv_command"]

#: Variable with the file whose environment this process runs in, so that the environment is entered only once.
ENTERED = "CARREL_SCRIPT"
#: The Python versions that Carrel supports.
REQUIRES_PYTHON = ">=3.11"
BLOCK = re.compile(r"(?m)^# /// (?P<type>[a-zA-Z0-9-]+)$\s(?P<content>(^#(| .*)$\s)+)^# ///$")
#: Extras of Carrel, each with a module that it installs. A uv environment gets the extras that are installed here.
EXTRAS = {
    "ask": "cryptography",
    "auth": "joserfc",
    "client": "aiohttp",
    "compat": "pydantic",
    "files": "watchfiles",
    "http": "uvicorn",
    "skills": "yaml",
}
#: Folders where uv is installed, but that are often not in the PATH of applications started from a desktop.
FOLDERS = ("~/.local/bin", "~/.cargo/bin", "/opt/homebrew/bin", "/usr/local/bin")


class ScriptMetadata(NamedTuple):
    """Metadata of a script: its dependencies and the required Python version."""

    dependencies: list[str]
    requires_python: str | None


def read_script(file: str) -> ScriptMetadata | None:
    """Return the metadata at the top of a file, or None.

    Raises:
        ConfigError: the metadata cannot be read, is not TOML, or occurs twice.
    """
    try:
        text = Path(file).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        return None  # another source encoding, declared for Python
    blocks = [match for match in BLOCK.finditer(text.replace("\r\n", "\n")) if match["type"] == "script"]
    if not blocks:
        return None
    if len(blocks) > 1:
        raise ConfigError(f"{file} has several blocks '# /// script'; there may be one")
    lines = blocks[0]["content"].splitlines(keepends=True)
    try:
        found = tomllib.loads("".join(line.removeprefix("# ") if line.startswith("# ") else line[1:] for line in lines))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file}: the block '# /// script' is not TOML: {error}") from error
    dependencies, requires = found.get("dependencies", []), found.get("requires-python")
    if not isinstance(dependencies, list) or not all(isinstance(one, str) for one in dependencies):
        raise ConfigError(f"{file}: dependencies of the block '# /// script' must be a list of text")
    if not isinstance(requires, str | None):
        raise ConfigError(f"{file}: requires-python of the block '# /// script' must be text")
    return ScriptMetadata(dependencies, requires)


def enter(file: str | None, arguments: list[str]) -> None:
    """Run this command again in an environment with the dependencies of a file, if uv is installed.

    Returns if the file has no dependencies, or if uv is missing, since the packages may be installed here.

    Raises:
        ConfigError: the metadata of the file is invalid.
    """
    script = None if file is None else read_script(file)
    if script is None or not script.dependencies or os.environ.get(ENTERED) == file:
        return
    uv = find_uv()
    if uv is None:
        return
    command = [uv, *uv_command(script), "python", "-P", "-m", "carrel", *arguments]
    environment = {**os.environ, ENTERED: str(file)}
    if sys.platform == "win32":  # Windows has no exec that keeps the standard streams and the process id
        sys.exit(subprocess.call(command, env=environment))  # noqa: S603
    os.execve(uv, command, environment)  # noqa: S606


def uv_command(script: ScriptMetadata) -> list[str]:
    """Return the uv arguments that run a program in an environment with a script's dependencies and this Carrel.

    https://docs.astral.sh/uv/reference/cli/#uv-run
    """
    python = f"{script.requires_python},{REQUIRES_PYTHON}" if script.requires_python else REQUIRES_PYTHON
    packages = [argument for package in script.dependencies for argument in ("--with", package)]
    named = any(re.match(r"carrel\b(?![-_.])", package.strip(), re.IGNORECASE) for package in script.dependencies)
    return ["run", "--quiet", "--no-project", "--isolated", "--python", python, *packages, *([] if named else own())]


def own() -> list[str]:
    """Return the uv arguments that install this Carrel, from the same location and with the same extras."""
    from importlib.metadata import PackageNotFoundError, distribution

    import msgspec

    extras = ",".join(extra for extra, module in EXTRAS.items() if importlib.util.find_spec(module) is not None)
    extras = f"[{extras}]" if extras else ""
    try:
        origin = distribution("carrel").read_text("direct_url.json")
    except PackageNotFoundError:
        origin = None
    if origin is None:
        return ["--with", f"carrel{extras}=={__version__}"]
    location = msgspec.json.decode(origin)
    if location.get("dir_info", {}).get("editable"):
        return ["--with-editable", f"{Path(__file__).parents[4]}{extras}"]
    return ["--with", f"carrel{extras} @ {location['url']}"]


def find_uv() -> str | None:
    """Return the path of uv, or None. Also searches folders that may not be in PATH."""
    folders = os.pathsep.join(str(Path(folder).expanduser()) for folder in FOLDERS)
    return shutil.which("uv") or shutil.which("uv", path=folders)


def missing(shown: str, file: str | None, module: str) -> str:
    """Return the error message for a missing package, with instructions to install it."""
    script = None if file is None else read_script(file)
    package = module.partition(".")[0]
    if script is not None and script.dependencies and find_uv() is None:
        packages = " ".join(f"'{one}'" if re.search(r"[^\w.\-]", one) else one for one in script.dependencies)
        return f"{shown} needs {package}: install uv, which reads the packages from the file, or pip install {packages}"
    return f"{shown} needs {package}, which is not installed here: pip install {package}, or uv run --with {package}"
