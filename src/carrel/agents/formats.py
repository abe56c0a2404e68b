"""The formats by name: tools of a client or another source in each of them, and contents."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, Unpack, overload

from carrel.agents.calls import Approve, FormatOptions, Toolbox
from carrel.agents.sources import ClientTools, ToolSource
from carrel.agents.vendor_tools import VendorFormat, VendorTools
from carrel.client.client import Client
from carrel.client.options import CallOptions
from carrel.errors import ConfigError
from carrel.near_names import did_you_mean
from carrel.wire.content import ContentBlock
from carrel.wire.resources import ReadResourceResult, ResourceContents

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool
    from llama_index.core.tools import AsyncBaseTool
    from pydantic_ai.toolsets import AbstractToolset

__all__ = ["FORMATS", "Framework", "Vendor", "content_of", "tools_of"]

Vendor: TypeAlias = Literal["anthropic", "openai", "openai-chat", "gemini"]
Framework: TypeAlias = Literal["langchain", "llamaindex", "pydantic-ai"]

VENDORS = ("anthropic", "openai", "openai-chat", "gemini")
#: The packages that the frameworks' tools are made with, by format.
PACKAGES = {"langchain": "langchain-core", "llamaindex": "llama-index-core", "pydantic-ai": "pydantic-ai-slim"}
FORMATS = (*VENDORS, *PACKAGES)


@overload
async def tools_of(source: Client | ToolSource, format: Vendor, **how: Unpack[FormatOptions]) -> VendorTools: ...
@overload
async def tools_of(
    source: Client | ToolSource, format: Literal["langchain"], **how: Unpack[FormatOptions]
) -> list[BaseTool]: ...
@overload
async def tools_of(
    source: Client | ToolSource, format: Literal["llamaindex"], **how: Unpack[FormatOptions]
) -> list[AsyncBaseTool]: ...
@overload
async def tools_of(
    source: Client | ToolSource, format: Literal["pydantic-ai"], **how: Unpack[FormatOptions]
) -> AbstractToolset[Any]: ...
async def tools_of(
    source: Client | ToolSource,
    format: Vendor | Framework,
    *,
    approve: Approve | None = None,
    prefix: bool = False,
    description_limit: int | None = None,
    options: CallOptions | None = None,
) -> Any:
    """Return the tools of a client, or of another source, in the format of a vendor or of a framework.

    Args:
        format: "anthropic", "openai" (Responses), "openai-chat" (Chat Completions) or "gemini": a ``VendorTools``;
            "langchain" or "llamaindex": a list of their tools; "pydantic-ai": a toolset.
        approve: asked before each call with a ``ToolUse``: True allows it; a text tells the model why not.
        prefix: whether all names begin with the name of the server.
        description_limit: characters of a description that are kept, for endpoints that refuse long ones.
        options: options of the calls, as of ``Client.call_tool``.

    Raises:
        ConfigError: there is no such format, or its package is not installed.
        MCPError: the server of the client is not available.
    """
    _check(format)
    if isinstance(source, Client):
        source = ClientTools(source)
    toolbox = Toolbox(source, approve=approve, prefix=prefix, options=options)
    if format in VENDORS:
        tools = VendorTools(toolbox, _vendor(format), description_limit)
        await tools.refresh()
        return tools
    await toolbox.refresh()
    return _framework(format, toolbox, description_limit)


@overload
def content_of(
    blocks: ReadResourceResult | Iterable[ContentBlock | ResourceContents], format: Vendor | Literal["langchain"]
) -> list[dict[str, Any]]: ...
@overload
def content_of(
    blocks: ReadResourceResult | Iterable[ContentBlock | ResourceContents],
    format: Literal["llamaindex", "pydantic-ai"],
) -> list[Any]: ...
def content_of(
    blocks: ReadResourceResult | Iterable[ContentBlock | ResourceContents], format: Vendor | Framework
) -> list[Any]:
    """Return what reading a resource returned, or content blocks, as content of a message of the user.

    Raises:
        ConfigError: there is no such format, or its package is not installed.
    """
    _check(format)
    contents = blocks.contents if isinstance(blocks, ReadResourceResult) else blocks
    if format in VENDORS:
        return _vendor(format).content(contents)
    return list(_load(format).content(contents))


def _check(format: str) -> None:
    if format not in FORMATS:
        raise ConfigError(
            f"there is no format {format!r} of tools{did_you_mean(format, FORMATS)}; they are {', '.join(FORMATS)}"
        )


def _vendor(format: str) -> VendorFormat:
    match format:
        case "anthropic":
            from carrel.vendors import anthropic

            return anthropic
        case "openai":
            from carrel.vendors import openai_responses

            return openai_responses
        case "openai-chat":
            from carrel.vendors import openai_chat

            return openai_chat
    from carrel.vendors import gemini

    return gemini


def _load(format: str) -> Any:
    """Import and return the module of a framework."""
    try:
        match format:
            case "langchain":
                from carrel.agents import langchain

                return langchain
            case "llamaindex":
                from carrel.agents import llamaindex

                return llamaindex
        from carrel.agents import pydantic_ai
    except ModuleNotFoundError as error:
        package = PACKAGES[format]
        raise ConfigError(f"Tools for {format} need the package {package}: pip install {package}") from error
    return pydantic_ai


def _framework(format: str, toolbox: Toolbox, description_limit: int | None) -> Any:
    return _load(format).make_tools(toolbox, description_limit)
