"""Frontmatter of SKILL.md files: parses the leading YAML block into a JSON object.

Scalars follow the core schema of YAML 1.2, which has the value types of JSON: ``yes`` and ``2026-01-31`` stay strings.
Work and nesting are bounded, and ambiguous input (a duplicate key) is rejected.

https://agentskills.io/specification
https://yaml.org/spec/1.2.2/#103-core-schema
"""

from __future__ import annotations

import re
from typing import Any, NoReturn

__all__ = ["MAX_FRONTMATTER", "FrontmatterError", "check_skill", "read_frontmatter"]

#: Maximum size of the frontmatter, in bytes.
MAX_FRONTMATTER = 65_536
MAX_DEPTH = 32
TOO_DEEP = f"the frontmatter is nested more than {MAX_DEPTH} deep"
MAX_VALUES = 10_000  # an alias counts as the value it refers to
MAX_DIGITS = 100
MAX_NAME = 64
MAX_DESCRIPTION = 1024

BLOCK = re.compile(rb"(?:\xef\xbb\xbf)?---\r?\n(.*?)^---[ \t]*\r?$", re.DOTALL | re.MULTILINE)
NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
INFINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
TEXT = "tag:yaml.org,2002:str"


class FrontmatterError(ValueError):
    """The frontmatter is missing, is not a JSON object, or is not valid for a skill."""


def read_frontmatter(data: bytes) -> dict[str, Any]:
    """Return the frontmatter of a file; only its first ``MAX_FRONTMATTER`` bytes are examined.

    Raises:
        FrontmatterError: it is missing, or has no JSON representation.
        ModuleNotFoundError: PyYAML is not installed.
    """
    found = BLOCK.match(data[:MAX_FRONTMATTER])
    if found is None:
        raise FrontmatterError("it does not begin with frontmatter, YAML between two lines of ---")
    try:
        value = read_yaml(found[1].decode())
    except UnicodeDecodeError:
        raise FrontmatterError("the frontmatter is not UTF-8") from None
    if not isinstance(value, dict):
        raise FrontmatterError("the frontmatter is not a list of fields and their values")
    return value


def check_skill(frontmatter: dict[str, Any], directory: str) -> None:
    """Check that the frontmatter is valid for a skill in a directory of this name.

    Raises:
        FrontmatterError: name or description is missing or violates the Agent Skills specification.
    """
    name, description = frontmatter.get("name"), frontmatter.get("description")
    if not isinstance(name, str) or len(name) > MAX_NAME or not NAME.fullmatch(name):
        raise FrontmatterError(f"the name has to be 1 to {MAX_NAME} lower-case letters, digits and single hyphens")
    if name != directory:
        raise FrontmatterError(
            f"the name is {name}, and the directory has another name, {directory}; they must be equal"
        )
    if not isinstance(description, str) or not 0 < len(description) <= MAX_DESCRIPTION or not description.strip():
        raise FrontmatterError(f"the description has to be a text of 1 to {MAX_DESCRIPTION} characters")


def read_yaml(text: str) -> Any:
    """Parse a single YAML document into JSON values.

    Raises:
        FrontmatterError: the text is not YAML, exceeds a limit, or has no JSON representation.
    """
    import yaml  # type: ignore[import-untyped]  # imported only when there is a skill

    # Events are consumed one by one, so a limit applies before anything is built or recurses.
    loader = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
    builder = Builder()
    try:
        for event in yaml.parse(text, Loader=loader):
            builder.take(type(event).__name__, event)
    except (yaml.YAMLError, UnicodeError) as error:
        if "nesting depth" in str(error):  # the parser itself has a limit since PyYAML 6.0.4
            reject(TOO_DEEP)
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f", line {mark.line + 2}"  # +1 for the opening ---
        raise FrontmatterError(
            f"the frontmatter is not YAML: {getattr(error, 'problem', None) or error}{line}"
        ) from None
    return builder.root


class Builder:
    """Builds a JSON value from the events of a YAML parser."""

    def __init__(self) -> None:
        self.root: Any = None
        self._documents = 0
        self._values = 0
        self._open: list[tuple[list[Any] | dict[str, Any], str | None, int]] = []  # with anchor, and count before
        self._keys: list[str | None] = []  # of open mappings, the key whose value is next
        self._anchors: dict[str, tuple[Any, int]] = {}

    def take(self, kind: str, event: Any) -> None:
        """Process the next parser event."""
        if kind == "ScalarEvent":
            self._take_scalar(event)
        elif kind in ("MappingStartEvent", "SequenceStartEvent"):
            if len(self._open) >= MAX_DEPTH:
                reject(TOO_DEEP)
            self._count(1)
            self._check_no_key()
            self._open.append(({} if kind == "MappingStartEvent" else [], event.anchor, self._values))
            self._keys.append(None)
        elif kind in ("MappingEndEvent", "SequenceEndEvent"):
            value, anchor, before = self._open.pop()
            self._keys.pop()
            self._put(value, anchor, 1 + self._values - before)
        elif kind == "AliasEvent":
            if event.anchor not in self._anchors:
                reject(f"the frontmatter has an alias *{event.anchor} of nothing before it")
            value, count = self._anchors[event.anchor]
            self._count(count)
            if isinstance(value, str) or not self._expects_key():
                self._put(value, None, count)
            else:
                self._check_no_key()
        elif kind == "DocumentStartEvent":
            self._documents += 1
            if self._documents > 1:
                reject("the frontmatter is more than one document")

    def _take_scalar(self, event: Any) -> None:
        self._count(1)
        # Keys are always strings in JSON, so they are not resolved.
        plain = event.implicit[0] and not self._expects_key()
        self._put(resolve(event.value) if plain else self._tagged(event), event.anchor, 1)

    def _tagged(self, event: Any) -> Any:
        if event.tag is None or event.tag in ("!", TEXT) or not event.tag.startswith("tag:yaml.org,2002:"):
            return event.value
        return event.value if self._expects_key() else resolve(event.value)

    def _expects_key(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1][0], dict) and self._keys[-1] is None

    def _check_no_key(self) -> None:
        if self._expects_key():
            reject("the frontmatter has a field whose name is not text")

    def _count(self, more: int) -> None:
        self._values += more
        if self._values > MAX_VALUES:
            reject(f"the frontmatter has more than {MAX_VALUES:,} values")

    def _put(self, value: Any, anchor: str | None, count: int) -> None:
        if anchor is not None:
            self._anchors[anchor] = value, count
        if not self._open:
            self.root = value
            return
        container = self._open[-1][0]
        if isinstance(container, list):
            container.append(value)
        elif self._keys[-1] is None:
            if value in container:
                reject(f"the frontmatter has the field {value[:100]} twice")
            self._keys[-1] = value
        else:
            container[self._keys[-1]] = value
            self._keys[-1] = None


def resolve(text: str) -> Any:
    """Resolve a plain scalar by the YAML 1.2 core schema.

    Raises:
        FrontmatterError: the number is too large or has no JSON representation.
    """
    if text in WORDS:
        return WORDS[text]
    if INTEGER.fullmatch(text):
        # Leading zeros are ignored in YAML 1.2; "0o17" and "0x1f" are written as in Python.
        number = int(text, 0 if text[:2] in ("0o", "0x") else 10) if len(text) < MAX_DIGITS else 1 << 64
        if not -(1 << 63) <= number < 1 << 64:
            reject(f"the frontmatter has the number {text[:100]}, which is too large")
        return number
    if FLOAT.fullmatch(text):
        real = float(text)
        if real - real != 0:
            reject(f"the frontmatter has the number {text[:100]}, which is too large")
        return real
    if INFINITE.fullmatch(text):
        reject(f"the frontmatter has the number {text}, which JSON does not have")
    return text


def reject(problem: str) -> NoReturn:
    raise FrontmatterError(problem)
