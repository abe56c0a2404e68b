"""Values of settings: references (``carrel.references``), conversion, and masking of secrets."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from carrel.cli.config.settings import Field
from carrel.cli.values import glob, size
from carrel.errors import ConfigError
from carrel.limits import Limits
from carrel.near_names import near
from carrel.redaction import MASK, without_secrets
from carrel.references import look_up, references_in, substitute

__all__ = ["Resolved", "convert", "mask", "resolve", "shown"]

NOT_HERE = "does not belong in the file: write ${env:NAME}, ${file:PATH} or ${keyring:SERVICE/NAME}"
WHOLE = re.compile(r"\$\{[^}]*\}")
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
        return any(text.startswith(("${file:", "${keyring:")) for text in self.references)


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
        in_url = {found["password"] for found in PASSWORD.finditer(value)}
        text = substitute(value, lambda name: look_up(name, folder, secret=secret or f"${{{name}}}" in in_url))
        return Resolved(text, tuple(f"${{{name}}}" for name in references_in(value)))
    if isinstance(value, list):
        items = [resolve(item, folder, secret=secret) for item in value]
        return Resolved([item.value for item in items], tuple(text for item in items for text in item.references))
    if isinstance(value, dict):
        pairs = {key: resolve(item, folder, secret=secret) for key, item in value.items()}
        references = tuple(text for item in pairs.values() for text in item.references)
        return Resolved({key: item.value for key, item in pairs.items()}, references)
    return Resolved(value, ())


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
        return f"{value!r} is not one of {', '.join(field.choices)}{near(value, field.choices, '')}"
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
