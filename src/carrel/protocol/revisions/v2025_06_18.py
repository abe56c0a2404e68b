"""2025-06-18: batches removed; structured tool output, resource links, titles, ``_meta`` nearly everywhere.

https://modelcontextprotocol.io/specification/2025-06-18/changelog
"""

import msgspec

from carrel.protocol.methods import ELICIT
from carrel.protocol.revision import without
from carrel.protocol.revisions import v2025_03_26
from carrel.wire.base import Annotations, ClientCapabilities, Implementation
from carrel.wire.client_features import Root
from carrel.wire.completion import CompleteParams, PromptReference
from carrel.wire.content import AudioContent, EmbeddedResource, ImageContent, ResourceLink, TextContent
from carrel.wire.prompts import Prompt, PromptArgument
from carrel.wire.resources import BlobResourceContents, Resource, ResourceTemplate, TextResourceContents
from carrel.wire.tools import CallToolResult, Tool


def link_as_text(block: ResourceLink) -> TextContent:
    """Downgrade a resource link, unknown to older clients, to text with its name and URI."""
    return TextContent(f"{block.name}: {block.uri}", annotations=block.annotations)


def undated(annotations: Annotations) -> Annotations | None:
    """Downgrade annotations: remove ``lastModified``, or the annotations if nothing else is left."""
    if annotations.last_modified is None:
        return annotations
    if annotations.audience is None and annotations.priority is None:
        return None
    return msgspec.structs.replace(annotations, last_modified=None)


PREVIOUS = v2025_03_26.REVISION

REVISION = PREVIOUS.followed_by(
    "2025-06-18",
    batches=False,
    resource_metadata=True,
    version_header=True,
    server_requests={**PREVIOUS.server_requests, ELICIT.operation: ELICIT},
    before={
        ClientCapabilities: without("elicitation"),
        CompleteParams: without("context"),
        Root: without("meta"),
        Annotations: undated,
        Implementation: without("title"),
        Resource: without("title", "meta"),
        ResourceTemplate: without("title", "meta"),
        TextResourceContents: without("meta"),
        BlobResourceContents: without("meta"),
        TextContent: without("meta"),
        ImageContent: without("meta"),
        AudioContent: without("meta"),
        EmbeddedResource: without("meta"),
        ResourceLink: link_as_text,
        Tool: without("title", "output_schema", "meta"),
        CallToolResult: without("structured_content"),
        Prompt: without("title", "meta"),
        PromptArgument: without("title"),
        PromptReference: without("title"),
    },
)
