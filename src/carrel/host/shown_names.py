"""Validation of names and titles from remote servers, which people and models see.

With a line break, a control character or an invisible character, a name could look like another tool's name, or fake
the text around it. A name with such characters is rejected, as calls need the exact name; a title is only displayed, so
the characters are removed.

https://modelcontextprotocol.io/specification/2026-07-28/server/tools#tool-names
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from carrel.printable import printable
from carrel.uri.template import MAX_URI
from carrel.wire.prompts import Prompt
from carrel.wire.resources import Resource, ResourceTemplate
from carrel.wire.skills import Skill
from carrel.wire.tools import Tool

__all__ = ["MAX_NAME", "UnfitName", "with_shown_names"]

#: Maximum length of a name (twice the length in the specification) and of a title, in characters.
MAX_NAME = 256
MAX_TITLE = 256
#: Invisible characters that Unicode classifies as letters, marks or symbols: joiners, fillers, blanks.
_BLANK = "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef"
_blank = re.compile(f"[{_BLANK}]").search
#: Characters that join emoji and letters of some scripts, or select their shapes.
JOINING = frozenset("\u200c\u200d\ufe0e\ufe0f")


class UnfitName(ValueError):
    """A name cannot be shown unchanged."""


def is_shown_whole(text: str) -> bool:
    """Return whether every character of a text is visible."""
    return text.isprintable() and (text.isascii() or _blank(text) is None)


def check_name(name: str, what: str = "the name") -> None:
    """Check a name, which is used unchanged.

    Raises:
        UnfitName: the name is empty or too long, or has a line break or an invisible character.
    """
    if not name.strip():
        raise UnfitName(f"{what} is empty")
    if len(name) > MAX_NAME:
        raise UnfitName(f"{what} has {len(name)} characters, the limit is {MAX_NAME}: {printable(name, 60)}")
    if not is_shown_whole(name):
        raise UnfitName(f"{what} has characters that cannot be seen: {name[:100]!a}")


def check_uri(uri: str) -> None:
    """Check a URI or URI template.

    Raises:
        UnfitName: the URI is too long, or has a line break or an invisible character.
    """
    if len(uri) > MAX_URI:
        raise UnfitName(f"the URI has {len(uri)} characters, the limit is {MAX_URI}: {printable(uri, 60)}")
    if not is_shown_whole(uri):
        raise UnfitName(f"the URI has characters that cannot be seen: {uri[:100]!a}")


def clean(title: str | None) -> str | None:
    """Return a title on one line, without invisible characters, truncated to ``MAX_TITLE`` characters."""
    if title is None or (len(title) <= MAX_TITLE and is_shown_whole(title)):
        return title
    kept = ""
    for letter in " ".join(title[: 4 * MAX_TITLE].split()):
        joins = letter in JOINING and kept and not kept[-1].isascii()
        if joins or is_shown_whole(letter):
            kept += letter
    return kept if len(kept) <= MAX_TITLE else f"{kept[: MAX_TITLE - 1]}…"


def _titled(entry: Any, **changed: Any) -> Any:
    """Return an entry with a clean title and other changed fields, or the same entry if nothing differs."""
    changed["title"] = clean(entry.title)
    changed = {name: value for name, value in changed.items() if value is not getattr(entry, name)}
    return msgspec.structs.replace(entry, **changed) if changed else entry


def _tool(tool: Tool) -> Tool:
    check_name(tool.name)
    annotations = tool.annotations
    if annotations is not None and annotations.title is not None:
        annotations = _titled(annotations)
    shown: Tool = _titled(tool, annotations=annotations)
    return shown


def _prompt(prompt: Prompt) -> Prompt:
    check_name(prompt.name)
    for argument in prompt.arguments or ():
        check_name(argument.name, "the name of an argument")
    arguments = prompt.arguments
    if arguments is not None and any(clean(argument.title) != argument.title for argument in arguments):
        arguments = [_titled(argument) for argument in arguments]
    shown: Prompt = _titled(prompt, arguments=arguments)
    return shown


def _resource(resource: Resource) -> Resource:
    check_uri(resource.uri)
    shown: Resource = _titled(resource, name=clean(resource.name) or clean(resource.uri))
    return shown


def _template(template: ResourceTemplate) -> ResourceTemplate:
    check_uri(template.uri_template)
    shown: ResourceTemplate = _titled(template, name=clean(template.name) or clean(template.uri_template))
    return shown


def _skill(skill: Skill) -> Skill:
    """Check a skill, and return it unchanged: its digest covers the frontmatter."""
    check_uri(skill.uri)
    name = skill.frontmatter.get("name")
    if isinstance(name, str):
        check_name(name)
    for file in () if isinstance(skill.resources, str) else skill.resources:
        check_uri(file.uri)
    return skill


_SHOWN: Mapping[type, Callable[[Any], Any]] = {
    Tool: _tool,
    Prompt: _prompt,
    Resource: _resource,
    ResourceTemplate: _template,
    Skill: _skill,
}


def with_shown_names(entry: Any) -> Any:
    """Check the names and URIs of a list entry, and clean its titles.

    Raises:
        UnfitName: a name or URI cannot be shown unchanged.
    """
    return _SHOWN[type(entry)](entry)
