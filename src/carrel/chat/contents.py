"""Conversion of resources, prompts and tool results to content for models, truncated to a budget.

Text from servers is marked as a resource with its server and URI, so that the model can tell it from the user's text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from carrel.chat.compaction import ATTACHED
from carrel.wire.client_features import SamplingContent
from carrel.wire.content import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
)
from carrel.wire.resources import BlobResourceContents, ResourceContents, TextResourceContents
from carrel.wire.tools import CallToolResult

if TYPE_CHECKING:
    from carrel.context.results import ContextItem

__all__ = [
    "CITED",
    "LINKED",
    "PDF",
    "STRUCTURED",
    "block_of_item",
    "blocks_of_contents",
    "blocks_of_result",
    "embedded_of",
    "plain_block",
    "size_of",
    "structured_beside",
    "truncate",
]

PDF = "application/pdf"
#: Key in ``_meta`` of the items of a packed context: the number, title and lines by which an answer cites them.
CITED = "carrel/cited"
#: Key in ``_meta`` of the text about a resource link in a tool result: the link.
LINKED = "carrel/link"
#: Key in ``_meta`` of a tool result: the structured content, of which the model reads the content in its place.
STRUCTURED = "carrel/structured"
#: Binary contents above this are not sent to models, in bytes: no vendor takes more in a request.
MAX_BINARY = 20_000_000


def truncate(text: str, budget: int) -> str:
    """Truncate a text to about ``budget`` characters, with a note that says how much was removed."""
    if len(text) <= budget:
        return text
    head, tail = max(budget * 3 // 4, 0), max(budget // 4, 0)
    left = len(text) - head - tail
    note = f"\n[… {left:,} of {len(text):,} characters were left out here: too long for the conversation …]\n"
    return f"{text[:head]}{note}{text[len(text) - tail :]}"


def blocks_of_contents(
    server: str, contents: Iterable[ResourceContents], budget: int
) -> list[TextContent | ImageContent | AudioContent]:
    """Return the contents of a resource as content for the model; together they have about ``budget`` characters."""
    found: list[TextContent | ImageContent | AudioContent] = []
    for part in contents:
        block = block_of_contents(server, part, budget)
        found.append(block)
        if isinstance(block, TextContent):
            budget = max(0, budget - len(block.text))
    return found


def block_of_contents(server: str, part: ResourceContents, budget: int) -> TextContent | ImageContent | AudioContent:
    """Return one part of a resource as content for the model: text, an image (or PDF), audio, or a note."""
    kind = part.mime_type or ("text/plain" if isinstance(part, TextResourceContents) else "application/octet-stream")
    meta: dict[str, Any] = {ATTACHED: [server, part.uri]}
    if isinstance(part, TextResourceContents):
        return TextContent(marked(server, part.uri, kind, truncate(part.text, budget)), meta=meta)
    return binary_block(part.blob, kind, meta) or TextContent(
        marked(server, part.uri, kind, f"[{len(part.blob):,} bytes of {kind}, which are not shown to you]"), meta=meta
    )


def binary_block(data: bytes, kind: str, meta: dict[str, Any] | None = None) -> ImageContent | AudioContent | None:
    """Return bytes as an image (or PDF) or audio; None if models do not take them."""
    if len(data) > MAX_BINARY:
        return None
    if kind.startswith("image/") or kind == PDF:
        return ImageContent(data, kind, meta=meta)
    return AudioContent(data, kind, meta=meta) if kind.startswith("audio/") else None


def marked(server: str, uri: str, kind: str, text: str) -> str:
    """Return the text of a resource within marks that it cannot end itself."""
    return _within_marks({"server": server, "uri": uri, "type": kind}, text)


def block_of_item(number: int, item: ContextItem) -> TextContent:
    """Return an item of a packed context as content for the model, with the number and the lines to cite it by."""
    lines = {} if item.lines is None else {"lines": f"{item.lines[0]}-{item.lines[1]}"}
    text = _within_marks({"number": str(number), "server": item.server, "uri": item.uri, **lines}, item.text)
    cited = {"number": number, "title": item.title, "lines": item.lines and list(item.lines)}
    return TextContent(text, meta={ATTACHED: [item.server, item.uri], CITED: cited})


def _within_marks(attributes: Mapping[str, str], text: str) -> str:
    written = "".join(f' {name}="{quoted(value)}"' for name, value in attributes.items())
    safe = text.replace("</resource", "<\\/resource")
    return f"<resource{written}>\n{safe}\n</resource>"


def quoted(text: str) -> str:
    """Return a text for an attribute of the mark of a resource."""
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace("\n", " ")


def plain_block(server: str, block: ContentBlock, budget: int) -> SamplingContent:
    """Return a block of a prompt or a tool result as text, an image or audio, as models take them."""
    if isinstance(block, TextContent):
        return block if len(block.text) <= budget else TextContent(truncate(block.text, budget))
    if isinstance(block, ResourceLink):
        about = "; ".join(part for part in (block.title or block.name, block.description, block.mime_type) if part)
        size = "" if block.size is None else f"; {block.size:,} bytes"
        text = truncate(f"[Resource of server {server}: {block.uri} ({about}{size})]", budget)
        return TextContent(text, meta={LINKED: msgspec.to_builtins(block)})
    if isinstance(block, EmbeddedResource):
        return block_of_contents(server, block.resource, budget)
    if len(block.data) > MAX_BINARY:
        return TextContent(f"[{len(block.data):,} bytes of {block.mime_type}, too many to be shown to you]")
    return block


def blocks_of_result(server: str, result: CallToolResult, budget: int) -> list[ContentBlock]:
    """Return the content of a tool result for the model; its text has at most about ``budget`` characters.

    Structured content takes the place of content that is missing.
    """
    content: Sequence[ContentBlock] = result.content
    if not content and result.structured_content is not UNSET:
        content = [TextContent(msgspec.json.encode(result.structured_content).decode())]
    found: list[ContentBlock] = []
    for at, block in enumerate(content):
        if budget <= 0:
            remaining = len(content) - at
            found.append(TextContent(f"[{remaining:,} more parts of this result were left out: too long]"))
            break
        one = plain_block(server, block, budget)
        found.append(one)  # type: ignore[arg-type]  # no tool uses are made of content blocks
        budget -= len(one.text) if isinstance(one, TextContent) else 0
    return found or [TextContent("[The result is empty.]")]


def structured_beside(result: CallToolResult, budget: int) -> dict[str, Any] | None:
    """Return the ``_meta`` that keeps structured content beside the content of a tool result; None if it is long."""
    value = result.structured_content
    if value is UNSET or not result.content or len(msgspec.json.encode(value)) > budget:
        return None
    return {STRUCTURED: value}


def embedded_of(block: TextContent | ImageContent | AudioContent) -> EmbeddedResource | None:
    """Return the resource that ``block_of_contents`` has made a block of, or None for other blocks."""
    about = (block.meta or {}).get(ATTACHED)
    if not isinstance(about, list) or len(about) != 2:
        return None
    uri = str(about[1])
    if not isinstance(block, TextContent):
        return EmbeddedResource(BlobResourceContents(uri=uri, blob=block.data, mime_type=block.mime_type))
    begin, _, text = block.text.partition("\n")
    kind = re.search(r' type="([^"]*)">$', begin)
    text = text.removesuffix("\n</resource>").replace("<\\/resource", "</resource")
    return EmbeddedResource(TextResourceContents(uri=uri, text=text, mime_type=kind[1] if kind else None))


def size_of(blocks: Iterable[object]) -> int:
    """Return the size of content: characters of text, bytes of everything else."""
    return sum(
        len(block.text) if isinstance(block, TextContent) else len(getattr(block, "data", b"")) for block in blocks
    )
