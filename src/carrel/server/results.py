"""Results of tools from the values that functions return: content blocks, text, and structured content.

https://modelcontextprotocol.io/specification/2026-07-28/server/tools#tool-result
"""

from __future__ import annotations

import sys
from math import isfinite
from types import GeneratorType
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from carrel.late import is_instance
from carrel.log import Log
from carrel.protocol.json_values import InvalidArguments, to_json, to_jsonable
from carrel.server.contents import Contents, contents_of
from carrel.wire.content import AudioContent, ContentBlock, EmbeddedResource, ImageContent, ResourceLink, TextContent
from carrel.wire.resources import BlobResourceContents, Resource, TextResourceContents
from carrel.wire.tools import CallToolResult

if TYPE_CHECKING:
    from carrel.protocol.json_schema import Validator
    from carrel.server.registered_tool import RegisteredTool

__all__ = ["block_of", "is_content", "result_of"]

BLOCKS = (TextContent, ImageContent, AudioContent, ResourceLink, EmbeddedResource)
CONTENT = (*BLOCKS, TextResourceContents, BlobResourceContents, Resource, Contents)
PLAIN = frozenset((str, int, float, bool))
#: Modules whose images and data frames are converted. They are never imported here.
FOREIGN = ("pandas", "polars", "PIL.Image")
log = Log("carrel")


def result_of(value: Any, entry: RegisteredTool) -> CallToolResult:
    """Convert the return value of a tool function to a result.

    Text and content blocks become content; a list of blocks stays a list. Everything else becomes JSON text, and also
    structured content if it is an object or the tool has an output schema. A value that violates the output schema
    becomes an error that names the violation.

    Raises:
        TypeError: the value cannot be encoded as JSON; the message names the tool and the path in the value.
    """
    output = entry.output
    if output is UNSET:
        output = entry.find_output()
    kind = type(value)
    if kind in PLAIN and (output is None or (kind is entry.exact and (kind is not float or isfinite(value)))):
        text = value if kind is str else str(value) if kind is int else to_json(value).decode()
        return CallToolResult(
            content=[TextContent(text)], structured_content=UNSET if output is None else {"result": value}
        )
    if isinstance(value, CallToolResult):
        return value if output is None else _checked(value, entry, output)
    if type(value) is GeneratorType:
        value = list(value)
    content = _content_of(value)
    if output is None and (content is not None or value is None):
        return CallToolResult(content=content or [])
    if content is not None:
        return _invalid_result(entry, "There is content, but no structured content; CallToolResult has both")
    plain, encoded = _encode(value, entry)
    wrap = output is not None and entry.function.signature.wraps and not entry.by_hand
    if output is None and type(plain) is list and _is_foreign(value, "is_frame"):
        wrap = True
    structured = {"result": plain} if wrap else plain
    if output is not None and (type(value) is not entry.exact or type(value) is float):
        try:
            output.validate(structured, None if wrap else encoded)
        except InvalidArguments as error:
            return _invalid_result(entry, str(error))
    blocks = _text_of(value, plain, encoded)
    if output is None and (type(structured) is not dict or entry.structured is False):
        return CallToolResult(content=blocks)
    return CallToolResult(content=blocks, structured_content=structured)


def _checked(value: CallToolResult, entry: RegisteredTool, output: Validator) -> CallToolResult:
    """Return a complete result if its structured content fits the output schema, else an error."""
    if value.is_error is not True:
        if value.structured_content is UNSET:
            return _invalid_result(entry, "There is no structured content")
        try:
            output.validate(value.structured_content)
        except InvalidArguments as error:
            return _invalid_result(entry, str(error))
    return value


def _invalid_result(entry: RegisteredTool, problem: str) -> CallToolResult:
    log.error("the result of tool %s does not conform to its output schema: %s", entry.name, problem)
    text = f"{entry.name}: the result does not conform to the output schema: {problem}"
    return CallToolResult(content=[TextContent(text)], is_error=True)


def _encode(value: Any, entry: RegisteredTool) -> tuple[Any, bytes]:
    """Return a value as JSON-able and as JSON.

    Raises:
        TypeError: a part of it cannot be encoded as JSON.
    """
    try:
        plain = to_jsonable(value) if entry.by_hand else entry.function.signature.to_plain(value)
        return plain, to_json(plain)
    except Exception as error:  # serializers of pydantic and other types may raise any exception
        from carrel.server.schema.unencodable import explain_unencodable

        raise TypeError(f"{entry.name}: {explain_unencodable(value, error)}") from error


def _text_of(value: Any, plain: Any, encoded: bytes) -> list[ContentBlock]:
    """Return the text of a value for models: plain text where it is text, a table for a data frame, else JSON."""
    if value is None:
        return []
    if isinstance(plain, str):
        return [TextContent(plain)]
    if type(plain) is list and plain:
        if type(value) in (list, tuple) and all(type(item) is str for item in value):
            return [TextContent(item) for item in value]
        if _is_foreign(value, "is_frame"):
            from carrel.protocol.tables import table_of

            return [TextContent(table_of(plain))]
    return [TextContent(encoded.decode())]


def _is_foreign(value: Any, what: str) -> bool:
    """Return whether a value is a data frame ("is_frame") or an image ("is_image") of a package that is loaded."""
    if not any(name in sys.modules for name in FOREIGN):
        return False
    if what == "is_image":
        return is_instance(value, "PIL.Image", "Image")
    from carrel.protocol.tables import is_frame

    return is_frame(value)


def is_content(value: Any) -> bool:
    """Return whether a value is a content block, or becomes one that is not mere text."""
    return isinstance(value, CONTENT) or hasattr(value, "to_block") or _is_foreign(value, "is_image")


def _content_of(value: Any) -> list[ContentBlock] | None:
    """Return a value as content blocks, or None if it is data."""
    if is_content(value):
        return [block_of(value)]
    if isinstance(value, (list, tuple)) and any(map(is_content, value)):
        return [block_of(item) for item in value]
    return None


def block_of(value: Any) -> ContentBlock:
    """Convert one value to a content block: text, a block as it is, contents embedded, a resource linked, else JSON.

    Raises:
        TypeError: the value cannot be encoded as JSON.
    """
    if isinstance(value, str):
        return TextContent(value)
    if isinstance(value, BLOCKS):
        return value
    if isinstance(value, TextResourceContents | BlobResourceContents):
        return EmbeddedResource(value)
    if isinstance(value, Resource):
        return ResourceLink(**{field: getattr(value, field) for field in Resource.__struct_fields__})
    if is_content(value):
        return _block_of_media(value)
    return TextContent(to_json(value).decode())


def _block_of_media(value: Any) -> ContentBlock:
    """Return an ``Image``, ``Audio``, ``File``, ``Contents`` or image of Pillow as a content block.

    Contents become an image or audio by their MIME type, unless they have a URI, and else an embedded resource.

    Raises:
        TypeError: the value cannot be encoded as JSON.
        OSError: the file of contents cannot be read.
    """
    from carrel.server.media import media_of, type_of_data  # few tools return them

    if isinstance(value, Contents):
        (contents,) = contents_of(value, value.uri or "file:///result", value.mime_type)
        data = contents.blob if isinstance(contents, BlobResourceContents) else b""
        kind = str(value.mime_type or type_of_data(data) or contents.mime_type)
        if value.uri is None and data and kind.startswith("image/"):
            return ImageContent(data, kind)
        if value.uri is None and data and kind.startswith("audio/"):
            return AudioContent(data, kind)
        return EmbeddedResource(contents)
    media = media_of(value)
    assert media is not None
    return media.to_block()
