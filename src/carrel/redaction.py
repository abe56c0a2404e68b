"""Redaction of secrets: structs whose repr hides them, and texts whose URLs and commands have no passwords and tokens.

A field is secret if its type is ``Secret``, or contains it:

    class Options(RedactedStruct, frozen=True):
        user: str = ""
        password: Secret | None = None

    repr(Options(user="ann", password="x"))  ->  Options(user='ann', password=********)
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Annotated, Any, TypeAlias, get_args, get_type_hints

import msgspec
from msgspec import Meta

__all__ = ["MASK", "RedactedStruct", "Secret", "redacted", "without_secrets"]

MASK = "********"
#: URL with a password, which may not be percent-encoded: ``imap://user:password@host``.
PASSWORD = re.compile(r"(?P<before>\b[A-Za-z][\w+.-]*://[^\s/?#:@]*:)[^\s]+(?=@)")
#: Password of a URL without its scheme, or with one slash too few: ``ann:password@host/mcp``, ``https:/ann:…@host:80``.
LOGIN = re.compile(r"""(?P<before>(?<![^\s'"(=])(?:[A-Za-z][\w+.-]*:/)?[^\s/?#:@'"]+:)[^\s/'"@]+(?=@[\w.\[\]-]+[:/])""")
#: Query parameter of a URL whose name says that its value is a secret: ``?password=…``, ``&X-Amz-Signature=…``.
PARAMETER = re.compile(
    r"(?P<before>[?&;][^=&;#\s]*(?:pass|pwd|secret|token|sig|key|auth|cred|session|jwt|code)[^=&;#\s]*=)[^&;#\s'\"<>]+",
    re.IGNORECASE,
)
#: Name of a secret, or its last words.
NAME = r"(?:token|secret|password|passwd|passphrase|(?:api|access|private|secret)[_-]?key)"
#: Value of a secret in a command: a word, or a text in quotes; but no reference to a variable, and nothing hidden.
VALUE = r"""(?!['"]?(?:\$|\*{8}))(?:(?:'[^']*'|"[^"]*")+|(?:[^\s'"]|['"](?=\w))+)"""
#: Variable in a command whose name says that its value is a secret: ``API_KEY=…``. The whole word may be in quotes.
VARIABLE = re.compile(
    rf"""(?<![\w?&;/.-])(?P<before>(?P<quote>['"])?(?:(?i:(?:\w+[_-])*{NAME})|[A-Z]\w*_(?:KEY|PWD|PASS))=)"""
    rf"""(?(quote)(?!\$|\*{{8}})(?:(?!(?P=quote)).|'"'"')+|{VALUE})"""
)
#: Word after the name of an option that is no value: the name is part of a sentence, or of an explanation.
PROSE = r"(?:and|are|as|for|has|in|is|needs|of|or|takes|to|with|without|TOKEN|SECRET|PASSWORD|KEY|FILE|NAME|VALUE)"
#: Option in a command whose name says that its value is a secret: ``--token …``, ``--api-key=…``.
OPTION = re.compile(
    rf"""(?P<before>(?<![\w-])--(?i:(?:\w+-)*{NAME})(?:=|['"]?,?[ \t]+))(?!-|['"]-|{PROSE}(?![\w-])){VALUE}"""
)

Secret: TypeAlias = Annotated[str, Meta(title="SECRET", extra={"secret": True})]
"""Password or key: never printed, and in a configuration file only as a reference such as ${env:NAME}."""


class RedactedStruct(msgspec.Struct, frozen=True):
    """Base of structs whose repr shows ``********`` in place of secrets and of passwords in URLs."""

    def __repr__(self) -> str:
        kinds = get_type_hints(type(self), include_extras=True)
        return redacted(self, {name for name, kind in kinds.items() if has(kind)})

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("", repr(self))]


def has(kind: object) -> bool:
    """Return whether a type is ``Secret`` or contains it."""
    return any((isinstance(one, Meta) and bool((one.extra or {}).get("secret"))) or has(one) for one in get_args(kind))


def redacted(struct: msgspec.Struct, secret: Collection[str]) -> str:
    """Return the repr of a struct with the values of secret fields hidden; of mappings, the keys are shown."""
    fields = ((name, getattr(struct, name)) for name in struct.__struct_fields__)
    shown = (f"{name}={hidden(value) if name in secret else without_secrets(repr(value))}" for name, value in fields)
    return f"{type(struct).__name__}({', '.join(shown)})"


def hidden(value: object) -> str:
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key!r}: {MASK}' for key in value)}}}"
    return MASK if value else repr(value)


def without_secrets(text: str) -> str:
    """Return a text with the secrets in URLs and commands hidden. Commands print targets by it."""
    if "://" in text or "?" in text:
        text = PARAMETER.sub(rf"\g<before>{MASK}", PASSWORD.sub(rf"\g<before>{MASK}", text))
    if "@" in text:
        text = LOGIN.sub(rf"\g<before>{MASK}", text)
    if "=" in text:
        text = VARIABLE.sub(rf"\g<before>{MASK}", text)
    return OPTION.sub(rf"\g<before>{MASK}", text) if "--" in text else text
