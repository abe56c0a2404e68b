"""Every public type in one import, for authors of servers and clients, with the functions ``printable`` and ``fetch``.

    from carrel.types import Form, Handlers, HTTPOptions, Resource, TextContent

Types of the protocol are the structs of ``carrel.wire``: an optional member that is absent is None. The members in
which null is not the same as absent, ``structured_content`` and ``result_type``, are UNSET (from ``msgspec``) instead,
which is false. Types of the client are loaded when they are first used.

https://modelcontextprotocol.io/specification/2026-07-28/schema
"""

from typing import TYPE_CHECKING

from carrel.late import late
from carrel.wire.base import Annotations, ClientCapabilities, Icon, Implementation, LoggingLevel, PageParams, Role
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
from carrel.wire.completion import (
    CompleteParams,
    CompleteResult,
    Completion,
    PromptReference,
    ResourceTemplateReference,
)
from carrel.wire.content import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
)
from carrel.wire.lifecycle import ServerCapabilities
from carrel.wire.prompts import (
    GetPromptParams,
    GetPromptResult,
    ListPromptsResult,
    Prompt,
    PromptArgument,
    PromptMessage,
)
from carrel.wire.resources import (
    BlobResourceContents,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ReadResourceParams,
    ReadResourceResult,
    Resource,
    ResourceContents,
    ResourceTemplate,
    TextResourceContents,
)
from carrel.wire.tools import CallToolParams, CallToolResult, ListToolsResult, Tool, ToolAnnotations
from carrel.wire.utilities import LoggingMessageParams

if TYPE_CHECKING:
    from carrel.catalog.access import UNRESTRICTED, Gate, View
    from carrel.catalog.rules import READING, Rule, Rules
    from carrel.client.cache import Cache
    from carrel.client.extensions import ClientExtension
    from carrel.client.handlers import (
        ClientCall,
        Form,
        Handlers,
        LogMessage,
        Origin,
        RootsRequest,
        Sampling,
        URLElicitation,
    )
    from carrel.client.results import PagedList
    from carrel.client.retry import Retries
    from carrel.client.skills import SkillSnapshot
    from carrel.client.state import ClientState, StateChange
    from carrel.client.tasks import ToolTask
    from carrel.client.watch import Watch, WatchEvent
    from carrel.client.web_resources import fetch
    from carrel.printable import printable, printable_lines
    from carrel.protocol.extension import Extension
    from carrel.protocol.methods import RequestType
    from carrel.protocol.principal import Principal
    from carrel.protocol.server import Call
    from carrel.search.options import SearchOptions
    from carrel.server.elicitation.client_requests import Elicited
    from carrel.server.middleware.middleware import Middleware, MiddlewareFunction, Next
    from carrel.transports.client.options import HTTPOptions, ProcessOptions
    from carrel.transports.client.transport import Transport
    from carrel.transports.server.route import HTTPRequest, HTTPResponse
    from carrel.uri.template import UriTemplate
    from carrel.wire.base import Params, Result

__all__ = [
    "READING",
    "UNRESTRICTED",
    "Annotations",
    "AudioContent",
    "BlobResourceContents",
    "Cache",
    "Call",
    "CallToolParams",
    "CallToolResult",
    "ClientCall",
    "ClientCapabilities",
    "ClientExtension",
    "ClientState",
    "CompleteParams",
    "CompleteResult",
    "Completion",
    "ContentBlock",
    "CreateMessageResult",
    "ElicitResult",
    "Elicited",
    "EmbeddedResource",
    "Extension",
    "Form",
    "Gate",
    "GetPromptParams",
    "GetPromptResult",
    "HTTPOptions",
    "HTTPRequest",
    "HTTPResponse",
    "Handlers",
    "Icon",
    "ImageContent",
    "Implementation",
    "ListPromptsResult",
    "ListResourceTemplatesResult",
    "ListResourcesResult",
    "ListToolsResult",
    "LogMessage",
    "LoggingLevel",
    "LoggingMessageParams",
    "Middleware",
    "MiddlewareFunction",
    "ModelHint",
    "ModelPreferences",
    "Next",
    "Origin",
    "PageParams",
    "PagedList",
    "Params",
    "Principal",
    "ProcessOptions",
    "Prompt",
    "PromptArgument",
    "PromptMessage",
    "PromptReference",
    "ReadResourceParams",
    "ReadResourceResult",
    "RequestType",
    "Resource",
    "ResourceContents",
    "ResourceLink",
    "ResourceTemplate",
    "ResourceTemplateReference",
    "Result",
    "Retries",
    "Role",
    "Root",
    "RootsRequest",
    "Rule",
    "Rules",
    "Sampling",
    "SamplingMessage",
    "SearchOptions",
    "ServerCapabilities",
    "SkillSnapshot",
    "StateChange",
    "TextContent",
    "TextResourceContents",
    "Tool",
    "ToolAnnotations",
    "ToolChoice",
    "ToolResultContent",
    "ToolTask",
    "ToolUseContent",
    "Transport",
    "URLElicitation",
    "UriTemplate",
    "View",
    "Watch",
    "WatchEvent",
    "fetch",
    "printable",
    "printable_lines",
]

#: Modules that are imported when their names are first used.
MODULES = {
    "carrel.client.web_resources": ("fetch",),
    "carrel.transports.client.transport": ("Transport",),
    "carrel.catalog.access": (
        "UNRESTRICTED",
        "Gate",
        "View",
    ),
    "carrel.catalog.rules": (
        "READING",
        "Rule",
        "Rules",
    ),
    "carrel.client.cache": ("Cache",),
    "carrel.client.extensions": ("ClientExtension",),
    "carrel.client.handlers": (
        "ClientCall",
        "Form",
        "Handlers",
        "LogMessage",
        "Origin",
        "URLElicitation",
        "RootsRequest",
        "Sampling",
    ),
    "carrel.client.results": ("PagedList",),
    "carrel.client.retry": ("Retries",),
    "carrel.client.skills": ("SkillSnapshot",),
    "carrel.client.state": (
        "ClientState",
        "StateChange",
    ),
    "carrel.client.tasks": ("ToolTask",),
    "carrel.client.watch": (
        "WatchEvent",
        "Watch",
    ),
    "carrel.printable": ("printable", "printable_lines"),
    "carrel.protocol.extension": ("Extension",),
    "carrel.protocol.principal": ("Principal",),
    "carrel.protocol.methods": ("RequestType",),
    "carrel.protocol.server": ("Call",),
    "carrel.search.options": ("SearchOptions",),
    "carrel.server.elicitation.client_requests": ("Elicited",),
    "carrel.server.middleware.middleware": ("Middleware", "MiddlewareFunction", "Next"),
    "carrel.transports.client.options": (
        "HTTPOptions",
        "ProcessOptions",
    ),
    "carrel.transports.server.route": (
        "HTTPRequest",
        "HTTPResponse",
    ),
    "carrel.uri.template": ("UriTemplate",),
    "carrel.wire.base": (
        "Params",
        "Result",
    ),
}

if not TYPE_CHECKING:
    __getattr__ = late(__name__, MODULES)
