"""2025-11-25: icons, streams that a server may end and a client may poll, tasks (experimental).

https://modelcontextprotocol.io/specification/2025-11-25/changelog
"""

from carrel.protocol.revision import without
from carrel.protocol.revisions import v2025_06_18
from carrel.wire.base import Implementation
from carrel.wire.content import ResourceLink
from carrel.wire.prompts import Prompt
from carrel.wire.resources import Resource, ResourceTemplate
from carrel.wire.tools import Tool

REVISION = v2025_06_18.REVISION.followed_by(
    "2025-11-25",
    primed=True,
    anonymous_errors=True,
    argument_errors_in_results=True,
    before={
        Implementation: without("description", "icons", "website_url"),
        Resource: without("icons"),
        ResourceLink: without("icons"),
        ResourceTemplate: without("icons"),
        Tool: without("icons"),
        Prompt: without("icons"),
    },
)
