"""MCPServer: server with decorators for tools, resources and prompts."""

from typing import TYPE_CHECKING

from carrel.compat.lazy import lazily

NAMES = {
    "MCPServer": "server",
    "require_client_extension": "server",
    "Context": "context",
    **dict.fromkeys(("Image", "Audio"), "utilities.types"),
    **dict.fromkeys(("Message", "UserMessage", "AssistantMessage"), "prompts.base"),
    **dict.fromkeys(
        (
            "AcceptedElicitation",
            "CancelledElicitation",
            "DeclinedElicitation",
            "Elicit",
            "ElicitationResult",
            "ListRoots",
            "Resolve",
            "Sample",
        ),
        "resolve",
    ),
    **dict.fromkeys(("DEFAULT_RESOURCE_SECURITY", "ResourceSecurity"), "resources.templates"),
    **dict.fromkeys(("Icon", "Extension", "ToolBinding", "ResourceBinding", "MethodBinding"), "server"),
    **dict.fromkeys(
        (
            "AESGCMRequestStateCodec",
            "InvalidRequestState",
            "RequestStateBoundary",
            "RequestStateCodec",
            "RequestStateSecurity",
            "authenticated_principal",
        ),
        "server",
    ),
    **{module: module for module in ("context", "exceptions", "prompts", "resolve", "resources", "server", "tools")},
}

__all__ = sorted(NAMES)

if not TYPE_CHECKING:
    __getattr__ = lazily(__name__, NAMES)
