"""References in configurations: one syntax for the settings of ``carrel.toml`` and for servers in any configuration.

    ${env:NAME}              environment variable; an error if it is not set
    ${env:NAME:-default}     the same, with a default if the variable is not set or empty; not for secrets
    ${file:PATH}             text of a file, without the line break at its end
    ${keyring:SERVICE/NAME}  entry of the keyring of the operating system
    ${workspaceFolder}       folder of the project; ${workspaceFolderBasename} is its name
    ${userHome}              home directory; ${/} or ${pathSeparator} is the separator of paths
    $${                      the characters ${

``${NAME}`` means ``${env:NAME}``, as in the configurations of Claude. Servers also have ``${input:ID}``
(``carrel.host.config.variables``).
"""

# No pathlib, whose import takes a few milliseconds: clients wait for a stdio server to start.
# ruff: noqa: PTH100, PTH111, PTH118, PTH119

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from carrel.errors import ConfigError
from carrel.near_names import did_you_mean
from carrel.regular_file import read_regular

__all__ = ["MAX_FILE", "from_keyring", "import_keyring", "look_up", "read_text", "references_in", "substitute"]

REFERENCE = re.compile(r"\$(?P<literal>\$\{)|\$\{(?P<name>[^}]*)\}")
VARIABLE = re.compile(r"(?:env:)?(?P<name>[A-Za-z_][\w()]*)(?::-(?P<default>.*))?", re.DOTALL)
#: Maximum size of a file, in bytes.
MAX_FILE = 1024 * 1024


def references_in(text: str) -> list[str]:
    """Return the references in a text, without ``${`` and ``}``."""
    return [found["name"] for found in REFERENCE.finditer(text) if found["name"] is not None]


def substitute(text: str, value: Callable[[str], str]) -> str:
    """Replace each reference in a text by its value. ``value`` gets the reference without ``${`` and ``}``."""
    return REFERENCE.sub(lambda found: found["literal"] or value(found["name"]), text)


def look_up(reference: str, folder: str, *, environment: Mapping[str, str] | None = None, secret: bool = False) -> str:
    """Return the value of a reference, given without ``${`` and ``}``. Paths are relative to ``folder``.

    Raises:
        ConfigError: the reference is not valid, or has no value; a secret has a default.
    """
    environment = os.environ if environment is None else environment
    kind, _, name = reference.partition(":")
    if kind == "file":
        return read_text(os.path.join(folder, os.path.expanduser(name)), f"${{file:{name}}}")
    if kind == "keyring":
        service, _, user = name.rpartition("/")
        if not service or not user:
            raise ConfigError(f"${{keyring:{name}}}: write ${{keyring:SERVICE/NAME}}")
        value = from_keyring(service, user)
        if value is None:
            raise ConfigError(f"the keyring has no such entry; keyring set {service} {user} adds it")
        return value
    if reference in ("workspaceFolder", "workspaceFolderBasename"):
        workspace = os.path.abspath(folder)
        return workspace if reference == "workspaceFolder" else os.path.basename(workspace)
    if reference == "userHome":
        return environment.get("HOME") or environment.get("USERPROFILE") or os.path.expanduser("~")
    if reference in ("/", "pathSeparator"):
        return os.sep
    variable = VARIABLE.fullmatch(reference)
    if variable is None:
        raise ConfigError(
            f"${{{reference[:100]}}} is no reference: there are ${{env:…}}, ${{file:…}} and ${{keyring:…}}; "
            "$${ is a plain ${"
        )
    name, default = variable["name"], variable["default"]
    if default is not None:
        if secret:
            raise ConfigError(f"${{env:{name}:-…}}: a secret has no default")
        return environment.get(name) or default
    if name not in environment:
        raise ConfigError(f"the environment variable {name} is not set{did_you_mean(name, environment)}")
    return environment[name]


def read_text(path: str | os.PathLike[str], shown: str | None = None) -> str:
    """Return the text of a file, without the final line break. ``shown`` is the name of the file in errors.

    Raises:
        ConfigError: the file cannot be read, is too large, or is not UTF-8 text.
    """
    shown = shown or os.fspath(path)
    try:
        data = read_regular(path, MAX_FILE + 1)
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"{shown} cannot be read: it is not UTF-8 text") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{shown} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > MAX_FILE:
        raise ConfigError(f"{shown} has more than {MAX_FILE} bytes")
    return text.replace("\r\n", "\n").removesuffix("\n")


def import_keyring() -> Any:
    """Return the package keyring.

    Raises:
        ConfigError: the package is not installed.
    """
    try:
        import keyring
    except ModuleNotFoundError:
        raise ConfigError("the keyring needs the package keyring: pip install 'carrel[keyring]'") from None
    return keyring


def from_keyring(service: str, name: str) -> str | None:
    """Return an entry of the keyring of the operating system, or None if there is no such entry.

    Raises:
        ConfigError: the keyring cannot be read, or the package keyring is not installed.
    """
    keyring = import_keyring()
    try:
        found: str | None = keyring.get_password(service, name)
    except Exception as error:  # backends raise arbitrary exceptions
        raise ConfigError(f"the keyring cannot be read: {error or type(error).__name__}") from None
    return found
