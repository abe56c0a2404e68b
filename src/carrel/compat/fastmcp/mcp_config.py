"""Configurations of servers: ``{"mcpServers": {name: {"command": …} or {"url": …}}}``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlparse

from pydantic import BaseModel, ConfigDict, Field, model_validator

from carrel.compat.fastmcp.client.transports import (
    ClientTransport,
    SSETransport,
    StdioTransport,
    StreamableHttpTransport,
)
from carrel.compat.fastmcp.tools.tool_transform import ToolTransformConfig

__all__ = [
    "CanonicalMCPConfig",
    "CanonicalMCPServerTypes",
    "MCPConfig",
    "MCPServerTypes",
    "RemoteMCPServer",
    "StdioMCPServer",
    "TransformingRemoteMCPServer",
    "TransformingStdioMCPServer",
    "infer_transport_type_from_url",
    "update_config_file",
]


def infer_transport_type_from_url(url: Any) -> Literal["http", "sse"]:
    """Return the transport of a URL: HTTP+SSE if its path ends with ``/sse``.

    Raises:
        ValueError: the URL is not one of HTTP.
    """
    if not str(url).startswith("http"):
        raise ValueError(f"Invalid URL: {url}")
    return "sse" if re.search(r"/sse(/|\?|&|$)", urlparse(str(url)).path) else "http"


class Entry(BaseModel):
    """Fields of all servers. Unknown ones are kept."""

    model_config = ConfigDict(extra="allow", arbitrary_types_allowed=True)

    timeout: int | None = None
    description: str | None = None
    icon: str | None = None
    authentication: dict[str, Any] | None = None


class StdioMCPServer(Entry):
    """Server that is a process."""

    command: str
    args: list[str] = Field(default_factory=list)
    env: dict[str, Any] = Field(default_factory=dict)
    transport: Literal["stdio"] = "stdio"
    type: Literal["stdio"] | None = None
    cwd: str | None = None
    keep_alive: bool | None = None

    def to_transport(self) -> ClientTransport:
        """Return the transport."""
        return StdioTransport(self.command, self.args, self.env, self.cwd, self.keep_alive)


class RemoteMCPServer(Entry):
    """Server at a URL."""

    url: str
    transport: Literal["http", "streamable-http", "sse"] | None = None
    headers: dict[str, str] = Field(default_factory=dict)
    auth: Any = None
    sse_read_timeout: Any = None

    def to_transport(self) -> ClientTransport:
        """Return the transport."""
        chosen = self.transport or infer_transport_type_from_url(self.url)
        kind = SSETransport if chosen == "sse" else StreamableHttpTransport
        return kind(self.url, self.headers, self.auth)


class Transforming(BaseModel):
    """Changes of the tools of a server, or tags of the shown components. At least one is needed."""

    tools: dict[str, ToolTransformConfig] = Field(default_factory=dict)
    include_tags: set[str] | None = None
    exclude_tags: set[str] | None = None

    @model_validator(mode="before")
    @classmethod
    def _check(cls, values: Any) -> Any:
        wanted = ("include_tags", "exclude_tags")
        if isinstance(values, dict) and not values.get("tools") and all(values.get(key) is None for key in wanted):
            raise ValueError("At least one of 'tools', 'include_tags', or 'exclude_tags' is required")
        return values


class TransformingStdioMCPServer(Transforming, StdioMCPServer):
    """Server that is a process, with changes."""


class TransformingRemoteMCPServer(Transforming, RemoteMCPServer):
    """Server at a URL, with changes."""


CanonicalMCPServerTypes = StdioMCPServer | RemoteMCPServer
MCPServerTypes = TransformingStdioMCPServer | TransformingRemoteMCPServer | StdioMCPServer | RemoteMCPServer


class MCPConfig(BaseModel):
    """Configuration: servers by name. The key ``mcpServers`` may be left out."""

    model_config = ConfigDict(extra="allow")

    mcpServers: dict[str, Annotated[MCPServerTypes, Field(union_mode="left_to_right")]] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _wrap(cls, values: Any) -> Any:
        bare = isinstance(values, dict) and "mcpServers" not in values
        servers = values.values() if bare else ()
        if any(isinstance(each, dict) and {"command", "url"} & each.keys() for each in servers):
            return {"mcpServers": values}
        return values

    def add_server(self, name: str, server: Any) -> None:
        """Add or replace a server."""
        self.mcpServers[name] = server

    @classmethod
    def from_dict(cls, config: dict[str, Any]) -> Self:
        """Return the configuration of a dictionary."""
        return cls.model_validate(config)

    def to_dict(self) -> dict[str, Any]:
        """Return the configuration as a dictionary."""
        return self.model_dump(exclude_none=True)

    def write_to_file(self, file_path: Path) -> None:
        """Write the configuration to a file."""
        file_path.parent.mkdir(parents=True, exist_ok=True)
        file_path.write_text(self.model_dump_json(indent=2), "utf-8")

    @classmethod
    def from_file(cls, file_path: Path) -> Self:
        """Return the configuration of a file.

        Raises:
            ValueError: the file does not exist or is empty.
        """
        text = file_path.read_text("utf-8").strip() if file_path.exists() else ""
        if not text:
            raise ValueError(f"No MCP servers defined in the config: {file_path}")
        return cls.model_validate_json(text)


class CanonicalMCPConfig(MCPConfig):
    """Configuration without changes of tools."""

    mcpServers: dict[str, CanonicalMCPServerTypes] = Field(default_factory=dict)


def update_config_file(file_path: Path, server_name: str, server_config: Any) -> None:
    """Add a server to the configuration in a file, or change it there."""
    config = MCPConfig.from_file(file_path)
    known = config.mcpServers.get(server_name)
    if known is not None:
        merged = {**known.model_dump(), **server_config.model_dump(exclude_none=True)}
        server_config = type(server_config).model_validate(merged)
    config.add_server(server_name, server_config)
    config.write_to_file(file_path)
