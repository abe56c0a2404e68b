"""Values of settings: references to secrets and environment variables, conversion, and masking of secrets.

    ${env:NAME}              an environment variable
    ${env:NAME:-default}     the same, with a default; not for secrets
    ${file:PATH}             the text of a file, without the line break at its end
    ${keyring:SERVICE/NAME}  an entry of the keyring of the operating system

``$${`` is a plain ``${``.
"""

# No pathlib, whose import takes a few milliseconds: clients wait for a stdio server to start.
# ruff: noqa: PTH111, PTH118

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from carrel.cli.config.settings import Field
from carrel.cli.values import glob, near, size
from carrel.errors import ConfigError
from carrel.limits import Limits
from carrel.redaction import MASK, without_secrets
from carrel.regular_file import read_regular

__all__ = ["Resolved", "convert", "mask", "resolve", "shown"]

NOT_HERE = "does not belong in the file: write ${env:NAME}, ${file:PATH} or ${keyring:SERVICE/NAME}"
REFERENCE = re.compile(r"\$(\$\{)|\$\{([^}]*)\}")
WHOLE = re.compile(r"\$\{[^}]*\}")
#: Maximum length of a file read by a reference, in characters. The file may be an endless device.
MAX_FILE = 1024 * 1024
#: URL with a password: ``imap://user:password@host``.
PASSWORD = re.compile(r"(?P<before>\b[A-Za-z][\w+.-]*://[^\s/?#:@]*:)(?P<password>[^\s/?#]+)(?=@)")
KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
    "null": "nothing",
}


class Resolved(NamedTuple):
    """Value with its references resolved. ``references`` lists the references as written."""

    value: Any
    references: tuple[str, ...]

    @property
    def is_secret(self) -> bool:
        """Whether a part of the value comes from a secret reference."""
        return any(not text.startswith("${env:") for text in self.references)


def resolve(value: Any, folder: str, *, secret: bool = False) -> Resolved:
    """Resolve the references in a value of the file. Paths are relative to ``folder``.

    Raises:
        ConfigError: a reference cannot be resolved, or a secret is in the file itself.
    """
    if isinstance(value, str):
        if secret and WHOLE.fullmatch(value) is None:
            raise ConfigError(f"a secret {NOT_HERE}")
        if any(WHOLE.fullmatch(found["password"]) is None for found in PASSWORD.finditer(value)):
            raise ConfigError(f"a password {NOT_HERE}")
        references = tuple(match[0] for match in REFERENCE.finditer(value) if match[1] is None)
        in_url = {found["password"] for found in PASSWORD.finditer(value)}
        text = REFERENCE.sub(
            lambda match: match[1] or look_up(match[2], folder, secret=secret or match[0] in in_url), value
        )
        return Resolved(text, references)
    if isinstance(value, list):
        items = [resolve(item, folder, secret=secret) for item in value]
        return Resolved([item.value for item in items], tuple(text for item in items for text in item.references))
    if isinstance(value, dict):
        pairs = {key: resolve(item, folder, secret=secret) for key, item in value.items()}
        references = tuple(text for item in pairs.values() for text in item.references)
        return Resolved({key: item.value for key, item in pairs.items()}, references)
    return Resolved(value, ())


def look_up(reference: str, folder: str, *, secret: bool) -> str:
    """Return the value of a reference. ``${`` and ``}`` are already removed.

    Raises:
        ConfigError: the kind of reference is unknown, or the name is not found.
    """
    kind, _, name = reference.partition(":")
    if kind == "env":
        name, has_default, default = name.partition(":-")
        if has_default and secret:
            raise ConfigError(f"${{env:{name}:-…}}: a secret has no default")
        if name in os.environ:
            return os.environ[name]
        if has_default:
            return default
        raise ConfigError(f"${{env:{name}}}: the environment variable {name} is not set{near(name, os.environ, '')}")
    if kind == "file":
        try:
            text = read_regular(os.path.join(folder, os.path.expanduser(name)), MAX_FILE + 1)
            if len(text) > MAX_FILE:
                raise ConfigError(f"${{file:{name}}} has more than {MAX_FILE} bytes")
            return text.decode().replace("\r\n", "\n").removesuffix("\n")
        except (OSError, ValueError) as error:
            raise ConfigError(f"${{file:{name}}} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if kind == "keyring":
        return from_keyring(name)
    raise ConfigError(
        f"${{{reference}}} is no reference: there are ${{env:…}}, ${{file:…}} and ${{keyring:…}}; $${{ is a plain ${{"
    )


def from_keyring(key: str) -> str:
    """Return the entry ``SERVICE/NAME`` of the keyring.

    Raises:
        ConfigError: there is no such entry, no keyring, or the keyring package is missing.
    """
    service, slash, name = key.rpartition("/")
    if not slash or not service or not name:
        raise ConfigError(f"${{keyring:{key}}}: write ${{keyring:SERVICE/NAME}}")
    try:
        import keyring
        from keyring.errors import KeyringError
    except ImportError:
        raise ConfigError("${keyring:…} needs the package keyring: pip install 'carrel[keyring]'") from None
    try:
        found = keyring.get_password(service, name)
    except KeyringError as error:
        raise ConfigError(f"${{keyring:{key}}}: {error or type(error).__name__}") from None
    if found is None:
        raise ConfigError(f"${{keyring:{key}}}: the keyring has no such entry; keyring set {service} {name} adds it")
    return found


def convert(field: Field, value: Any, *, from_text: bool) -> Any:
    """Convert a value to the type of a setting. With ``from_text``, numbers, booleans and lists may be strings.

    Raises:
        ConfigError: the value has another type, or is out of range.
    """
    if from_text and isinstance(value, str):
        value = parse(field, value)
    try:
        if field.is_size and isinstance(value, str):
            value = size(value)
        if field.marks.get("title") == "GLOB" and isinstance(value, list):
            value = [glob(one) if isinstance(one, str) else one for one in value]
        converted = msgspec.convert(value, field.kind, strict=not from_text)
    except argparse.ArgumentTypeError as error:
        raise ConfigError(str(error)) from None
    except msgspec.ValidationError as error:
        raise ConfigError("expected text" if field.is_secret else explained(str(error), field, value)) from None
    if field.section == "limits":
        Limits(**{field.name: converted})  # checks the range
    return converted


def parse(field: Field, text: str) -> Any:
    """Parse text as a comma-separated list or a JSON table, depending on the type. Other text is returned unchanged."""
    kinds = field.types
    if kinds & {tuple, list, frozenset} and str not in kinds:
        return [part.strip() for part in text.split(",") if part.strip()]
    if dict in kinds:
        try:
            return msgspec.json.decode(text)
        except msgspec.DecodeError:
            raise ConfigError('expected a table in JSON, such as {"*": "read"}') from None
    return text


def explained(message: str, field: Field, value: Any) -> str:
    """Rephrase an error of msgspec in the terms of the documentation."""
    if field.choices and isinstance(value, str):
        return f"{value!r} is none of {', '.join(field.choices)}{near(value, field.choices, '')}"
    text = re.sub(r"`([^`]*)`", lambda match: in_words(match[1]), message.partition(" - at ")[0])
    return text[:1].lower() + text[1:]


def in_words(kinds: str) -> str:
    names = [name for name in kinds.split(" | ") if name != "null"] or ["null"]
    return " or ".join(KINDS.get(name, name) for name in names)


def mask(field: Field, value: Any, *, secret: bool) -> Any:
    """Return a value with secrets and passwords in URLs hidden."""
    if value is not None and (secret or field.is_secret):
        return MASK
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, list | tuple):
        return [mask(field, item, secret=False) for item in value]
    if isinstance(value, Mapping):
        return {key: mask(field, item, secret=False) for key, item in value.items()}
    return value


def shown(value: Any) -> str:
    """Return a value as TOML."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(shown, value))}]"
    if isinstance(value, Mapping):
        return (
            "{ " + ", ".join(f"{shown(str(key))} = {shown(item)}" for key, item in value.items()) + " }"
            if value
            else "{}"
        )
    return msgspec.json.encode(value).decode()
