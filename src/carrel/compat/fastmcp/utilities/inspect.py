"""Inspection: everything that a server shows, as data."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal

import pydantic_core

from carrel.compat.fastmcp.client.client import Client
from carrel.compat.generation import fastmcp_version

__all__ = [
    "FastMCPInfo",
    "InspectFormat",
    "PromptInfo",
    "ResourceInfo",
    "TemplateInfo",
    "ToolInfo",
    "format_fastmcp_info",
    "format_info",
    "format_mcp_info",
    "inspect_fastmcp",
]


class InspectFormat(enum.StrEnum):
    """Form of the result: as FastMCP's own data, or as the protocol's."""

    FASTMCP = "fastmcp"
    MCP = "mcp"


@dataclass(kw_only=True)
class Info:
    """Details of any component."""

    key: str
    name: str | None
    description: str | None
    tags: list[str] | None = None
    title: str | None = None
    icons: list[dict[str, Any]] | None = None
    meta: dict[str, Any] | None = None


@dataclass(kw_only=True)
class ToolInfo(Info):
    """Details of a tool."""

    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None = None
    annotations: dict[str, Any] | None = None


@dataclass(kw_only=True)
class PromptInfo(Info):
    """Details of a prompt."""

    arguments: list[dict[str, Any]] | None = None


@dataclass(kw_only=True)
class ResourceInfo(Info):
    """Details of a resource."""

    uri: str
    mime_type: str | None = None
    annotations: dict[str, Any] | None = None


@dataclass(kw_only=True)
class TemplateInfo(Info):
    """Details of a resource template."""

    uri_template: str
    mime_type: str | None = None
    parameters: dict[str, Any] | None = None
    annotations: dict[str, Any] | None = None


@dataclass
class FastMCPInfo:
    """Details of a server and its components."""

    name: str
    instructions: str | None
    version: str | None
    website_url: str | None
    icons: list[dict[str, Any]] | None
    fastmcp_version: str
    mcp_version: str
    server_generation: int
    tools: list[ToolInfo]
    prompts: list[PromptInfo]
    resources: list[ResourceInfo]
    templates: list[TemplateInfo]
    capabilities: dict[str, Any]


def _dumped(given: Any) -> Any:
    if given is None:
        return None
    return [each.model_dump() for each in given] if isinstance(given, list) else given.model_dump()


def _common(component: Any) -> dict[str, Any]:
    return {
        "key": component.key,
        "name": component.name,
        "description": component.description,
        "tags": list(component.tags) or None,
        "title": component.title,
        "icons": _dumped(component.icons),
        "meta": component.meta,
    }


async def inspect_fastmcp(mcp: Any) -> FastMCPInfo:
    """Return the details of a server."""
    listed = {"listChanged": False}
    return FastMCPInfo(
        mcp.name,
        mcp.instructions,
        mcp.version,
        mcp.website_url,
        _dumped(mcp.icons or None),
        fastmcp_version(),
        _version_of_mcp(),
        2,
        [
            ToolInfo(
                input_schema=each.parameters,
                output_schema=each.output_schema,
                annotations=_dumped(each.annotations),
                **_common(each),
            )
            for each in await mcp.list_tools()
        ],
        [PromptInfo(arguments=_dumped(each.arguments or None), **_common(each)) for each in await mcp.list_prompts()],
        [
            ResourceInfo(
                uri=str(each.uri), mime_type=each.mime_type, annotations=_dumped(each.annotations), **_common(each)
            )
            for each in await mcp.list_resources()
        ],
        [
            TemplateInfo(
                uri_template=each.uri_template,
                mime_type=each.mime_type,
                parameters=each.parameters,
                annotations=_dumped(each.annotations),
                **_common(each),
            )
            for each in await mcp.list_resource_templates()
        ],
        {"tools": {"listChanged": True}, "resources": {"subscribe": False, **listed}, "prompts": listed, "logging": {}},
    )


def _version_of_mcp() -> str:
    try:
        return version("mcp")
    except PackageNotFoundError:
        return ""


def format_fastmcp_info(info: FastMCPInfo) -> bytes:
    """Return the details of a server as JSON."""
    server = {
        "name": info.name,
        "instructions": info.instructions,
        "version": info.version,
        "website_url": info.website_url,
        "icons": info.icons,
        "generation": info.server_generation,
        "capabilities": info.capabilities,
    }
    whole = {
        "server": server,
        "environment": {"fastmcp": info.fastmcp_version, "mcp": info.mcp_version},
        "tools": info.tools,
        "prompts": info.prompts,
        "resources": info.resources,
        "templates": info.templates,
    }
    return pydantic_core.to_json(whole, indent=2)


async def format_mcp_info(mcp: Any) -> bytes:
    """Return what clients see of a server, as JSON."""
    async with Client[Any](mcp) as client:
        found = {
            "environment": {"fastmcp": fastmcp_version(), "mcp": _version_of_mcp()},
            "serverInfo": client.initialize_result.serverInfo,  # type: ignore[union-attr]
            "capabilities": {},
            "tools": await client.list_tools(),
            "prompts": await client.list_prompts(),
            "resources": await client.list_resources(),
            "resourceTemplates": await client.list_resource_templates(),
        }
    return pydantic_core.to_json(found, indent=2, by_alias=True)


async def format_info(
    mcp: Any, format: InspectFormat | Literal["fastmcp", "mcp"], info: FastMCPInfo | None = None
) -> bytes:
    """Return the details of a server in a form, as JSON."""
    if InspectFormat(format) is InspectFormat.MCP:
        return await format_mcp_info(mcp)
    return format_fastmcp_info(info or await inspect_fastmcp(mcp))
