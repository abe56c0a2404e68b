"""Every public type in one import, for authors of servers and of clients.

    from carrel.types import Form, Handlers, HTTPOptions, Resource, TextContent

Types of the protocol are the structs of ``carrel.wire``: an optional member that is absent is None. The members in
which null is not the same as absent, ``structured_content`` and ``result_type``, are UNSET (from ``msgspec``) instead,
which is false. Types of the client are loaded when they are first used.

https://modelcontextprotocol.io/specification/2026-07-28/schema
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from carrel.wire.base import Annotations, ClientCapabilities, Icon, Implementation, LoggingLevel, Role
from carrel.wire.client_features import (
    CreateMessageResult,
    ElicitResult,
    ModelHint,
    ModelPreferences,
    Root,
    SamplingMessage,
    ToolChoice,
    ToolResultContent,
    ToolUseContent,
)
from carrel.wire.completion import Completion, PromptReference, ResourceTemplateReference
from carrel.wire.content import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
)
from carrel.wire.lifecycle import ServerCapabilities
from carrel.wire.prompts import GetPromptResult, Prompt, PromptArgument, PromptMessage
from carrel.wire.resources import (
    BlobResourceContents,
    ReadResourceResult,
    Resource,
    ResourceContents,
    ResourceTemplate,
    TextResourceContents,
)
from carrel.wire.tools import CallToolResult, Tool, ToolAnnotations
from carrel.wire.utilities import LoggingMessageParams

if TYPE_CHECKING:
    from carrel.catalog.access import Gate, View
    from carrel.catalog.rules import Rule, Rules
    from carrel.client.cache import Cache
    from carrel.client.extensions import ClientExtension
    from carrel.client.handlers import ClientCall, Form, Handlers, LogMessage, Origin, Page, RootsRequest, Sampling
    from carrel.client.results import Listing
    from carrel.client.retry import Retries
    from carrel.client.skills import Skill
    from carrel.client.state import ClientState, StateChange
    from carrel.client.tasks import ToolTask
    from carrel.client.watch import Change, Watch
    from carrel.protocol.principal import Principal
    from carrel.server.dispatch import Middleware, Next
    from carrel.transports.client.options import HTTPOptions, ProcessOptions
    from carrel.transports.server.route import HTTPRequest, HTTPResponse

__all__ = [
    "Annotations",
    "AudioContent",
    "BlobResourceContents",
    "Cache",
    "CallToolResult",
    "Change",
    "ClientCall",
    "ClientCapabilities",
    "ClientExtension",
    "ClientState",
    "Completion",
    "ContentBlock",
    "CreateMessageResult",
    "ElicitResult",
    "EmbeddedResource",
    "Form",
    "Gate",
    "GetPromptResult",
    "HTTPOptions",
    "HTTPRequest",
    "HTTPResponse",
    "Handlers",
    "Icon",
    "ImageContent",
    "Implementation",
    "Listing",
    "LogMessage",
    "LoggingLevel",
    "LoggingMessageParams",
    "Middleware",
    "ModelHint",
    "ModelPreferences",
    "Next",
    "Origin",
    "Page",
    "Principal",
    "ProcessOptions",
    "Prompt",
    "PromptArgument",
    "PromptMessage",
    "PromptReference",
    "ReadResourceResult",
    "Resource",
    "ResourceContents",
    "ResourceLink",
    "ResourceTemplate",
    "ResourceTemplateReference",
    "Retries",
    "Role",
    "Root",
    "RootsRequest",
    "Rule",
    "Rules",
    "Sampling",
    "SamplingMessage",
    "ServerCapabilities",
    "Skill",
    "StateChange",
    "TextContent",
    "TextResourceContents",
    "Tool",
    "ToolAnnotations",
    "ToolChoice",
    "ToolResultContent",
    "ToolTask",
    "ToolUseContent",
    "View",
    "Watch",
]

#: Modules of the types that are loaded when they are first used.
MODULES = {
    "carrel.catalog.access": ("Gate", "View"),
    "carrel.catalog.rules": ("Rule", "Rules"),
    "carrel.protocol.principal": ("Principal",),
    "carrel.server.dispatch": ("Middleware", "Next"),
    "carrel.client.cache": ("Cache",),
    "carrel.client.extensions": ("ClientExtension",),
    "carrel.client.handlers": (
        *("ClientCall", "Form", "Handlers", "LogMessage", "Origin", "Page", "RootsRequest", "Sampling"),
    ),
    "carrel.client.results": ("Listing",),
    "carrel.client.retry": ("Retries",),
    "carrel.client.skills": ("Skill",),
    "carrel.client.state": ("ClientState", "StateChange"),
    "carrel.client.tasks": ("ToolTask",),
    "carrel.client.watch": ("Change", "Watch"),
    "carrel.transports.client.options": ("HTTPOptions", "ProcessOptions"),
    "carrel.transports.server.route": ("HTTPRequest", "HTTPResponse"),
}
LATE = {name: module for module, names in MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in LATE:
        return getattr(import_module(LATE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
