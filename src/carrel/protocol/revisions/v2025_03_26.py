"""2025-03-26: Streamable HTTP, batches, audio, tool annotations.

https://modelcontextprotocol.io/specification/2025-03-26/changelog
"""

import msgspec

from carrel.protocol.methods import SAMPLE
from carrel.protocol.revision import without
from carrel.protocol.revisions import v2024_11_05
from carrel.wire.client_features import CreateMessageResult
from carrel.wire.content import AudioContent, EmbeddedResource, TextContent
from carrel.wire.lifecycle import ServerCapabilities
from carrel.wire.resources import BlobResourceContents
from carrel.wire.tools import Tool
from carrel.wire.utilities import ProgressParams


def audio_as_resource(block: AudioContent) -> EmbeddedResource:
    """Downgrade audio, unknown to older clients, to an embedded resource with the same bytes."""
    contents = BlobResourceContents("audio:content", block.data, mime_type=block.mime_type)
    return EmbeddedResource(contents, annotations=block.annotations)


def audio_in_words(result: CreateMessageResult) -> CreateMessageResult:
    """Downgrade a sampling result: audio becomes text, as a result was text or an image."""
    if not isinstance(result.content, AudioContent):
        return result
    return msgspec.structs.replace(result, content=TextContent(f"[audio, {result.content.mime_type}]"))


PREVIOUS = v2024_11_05.REVISION

REVISION = PREVIOUS.followed_by(
    "2025-03-26",
    batches=True,
    resumable=True,
    server_requests={**PREVIOUS.server_requests, "sample_with_audio": SAMPLE},
    before={
        AudioContent: audio_as_resource,
        CreateMessageResult: audio_in_words,
        Tool: without("annotations"),
        ServerCapabilities: without("completions"),
        ProgressParams: without("message"),
    },
)
