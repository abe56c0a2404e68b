"""Attachments: resources that the user names as ``@server:uri``, and files, as content of a message.

``@uri`` is enough if only one server has the resource. Use ``@"…"`` if the URI or path has spaces.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from carrel.chat.compaction import ATTACHED
from carrel.chat.contents import binary_block, block_of_item, blocks_of_contents, marked, size_of, truncate
from carrel.errors import ConfigError
from carrel.host import Host
from carrel.media_types import is_textual, type_of_bytes, type_of_name
from carrel.near_names import did_you_mean
from carrel.uri.template import UriTemplate, UriTemplateError
from carrel.wire.client_features import SamplingContent

if TYPE_CHECKING:
    from carrel.context.results import ContextItem

__all__ = ["Attachment", "Mention", "attach_items", "expand_template", "find_mentions", "read_attachments", "read_file"]

#: Characters of all resources of one message.
BUDGET = 200_000
#: Files above this are not read.
MAX_FILE = 50_000_000
MENTION = re.compile(r'(?<![^\s(\[{])@(?:"([^"\n]+)"|([^\s"]+))')
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
#: Ends a sentence, and not a URI.
PUNCTUATION = ".,;:!?)]}'"


class Attachment(NamedTuple):
    """Resource, or file (``server`` empty), that goes with a message. ``size``: characters and bytes of the content."""

    server: str
    uri: str
    content: Sequence[SamplingContent]
    size: int


class Mention(NamedTuple):
    """Resource that a message names."""

    server: str
    uri: str


async def find_mentions(host: Host, text: str) -> list[Mention]:
    """Return the resources that a text names, each once.

    Words with ``@`` that name neither a server nor a URI, such as ``@ada``, are only words.

    Raises:
        ConfigError: no server has a URI that is named, or several have it.
    """
    found: dict[Mention, None] = {}
    for match in MENTION.finditer(text):
        mention = await _mention(host, match[1] or match[2], exact=match[1] is not None)
        if mention is not None:
            found[mention] = None
    return list(found)


async def _mention(host: Host, word: str, *, exact: bool) -> Mention | None:
    for name in sorted(host.servers, key=len, reverse=True):
        if word.startswith(f"{name}:"):
            uri = word[len(name) + 1 :]
            return Mention(name, uri if exact else await _trimmed(host, uri, [name])) if uri else None
    uri = word if exact else await _trimmed(host, word, list(host.servers))
    if not SCHEME.match(uri):
        return None
    owners = [name for name in host.servers if await _has(host, name, uri)]
    if len(owners) == 1:
        return Mention(owners[0], uri)
    if owners:
        raise ConfigError(f"several servers have {uri}: write {' or '.join(f'@{name}:{uri}' for name in owners)}")
    if "://" not in uri:
        near = did_you_mean(uri.partition(":")[0], host.servers)
        if not near:
            return None  # such as @todo: and @param:x
        raise ConfigError(f"there is no server {uri.partition(':')[0]!r}{near}")
    raise ConfigError(f"no server is known to have {uri}; name one with @SERVER:{uri}")


async def _trimmed(host: Host, uri: str, servers: Sequence[str]) -> str:
    """Return a URI without the punctuation of the sentence, unless a listed resource ends with it."""
    short = uri.rstrip(PUNCTUATION)
    if short == uri:
        return uri
    listed = {one.item.uri for one in await host.list_resources(servers=servers)}
    return uri if uri in listed else short


async def _has(host: Host, server: str, uri: str) -> bool:
    if any(one.item.uri == uri for one in await host.list_resources(servers=[server])):
        return True
    for one in await host.list_resource_templates(servers=[server]):
        try:
            if UriTemplate(one.item.uri_template).match(uri) is not None:
                return True
        except UriTemplateError:
            continue
    return False


async def read_attachments(host: Host, mentions: Sequence[Mention], budget: int = BUDGET) -> list[Attachment]:
    """Read resources concurrently. They share the budget; longer contents are truncated with a note.

    Raises:
        MCPError: a resource cannot be read; nothing is attached.
    """
    results = await asyncio.gather(*(host.read_resource(server, uri) for server, uri in mentions))
    found = []
    for (server, uri), result, share in zip(mentions, results, shares(len(mentions), budget), strict=True):
        content = blocks_of_contents(server, result.contents, share)
        found.append(Attachment(server, uri, content, size_of(content)))
    return found


def attach_items(items: Sequence[ContextItem]) -> list[Attachment]:
    """Return the items of a packed context as attachments, numbered from 1."""
    blocks = [block_of_item(number, item) for number, item in enumerate(items, 1)]
    return [
        Attachment(item.server, item.uri, [block], size_of([block])) for item, block in zip(items, blocks, strict=True)
    ]


def shares(count: int, budget: int) -> list[int]:
    """Return an equal share of a budget for each of ``count``."""
    return [budget // max(count, 1)] * count


def expand_template(template: str, values: Mapping[str, str]) -> str:
    """Return the URI of a template with its arguments.

    Raises:
        ConfigError: an argument is missing or unknown, or the template is malformed.
    """
    try:
        parsed = UriTemplate(template)
        known = [variable.name for variable in parsed.variables]
        for name in values:
            if name not in known:
                hint = did_you_mean(name, known) or f"; it has {', '.join(known) or 'none'}"
                raise ConfigError(f"{template} has no argument {name!r}{hint}")
        missing = [name for name in parsed.names if name not in values and name in parsed.required]
        if missing:
            raise ConfigError(f"{template} needs {', '.join(f'{name}=…' for name in missing)}")
        return parsed.expand(values)
    except UriTemplateError as error:
        raise ConfigError(f"{template} is not a template: {error}") from None


def read_file(file: str, budget: int = BUDGET) -> Attachment:
    """Return a local file as an attachment.

    Raises:
        ConfigError: it cannot be read, or models do not take its type.
    """
    path = Path(file).expanduser()
    try:
        if path.stat().st_size > MAX_FILE:
            raise ConfigError(f"{path} is too large to be attached: {path.stat().st_size:,} bytes")
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    kind = type_of_name(path.name) or type_of_bytes(data, path.name)
    block: SamplingContent | None = binary_block(data, kind, {ATTACHED: ["", str(path)]})
    if block is None:
        from carrel.wire.content import TextContent

        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise ConfigError(f"{path} ({kind}) is neither text, an image, audio nor a PDF") from None
        kind = kind if is_textual(kind) else "text/plain"
        block = TextContent(marked("", str(path), kind, truncate(text, budget)), meta={ATTACHED: ["", str(path)]})
    return Attachment("", str(path), [block], size_of([block]))
