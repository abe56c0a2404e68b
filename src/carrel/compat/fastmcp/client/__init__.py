"""Clients."""

from carrel.compat.fastmcp.client.client import Client
from carrel.compat.fastmcp.client.transports import (
    ClientTransport,
    FastMCPStdioTransport,
    FastMCPTransport,
    MCPConfigTransport,
    NodeStdioTransport,
    NpxStdioTransport,
    PythonStdioTransport,
    SSETransport,
    StdioTransport,
    StreamableHttpTransport,
    UvxStdioTransport,
)

__all__ = [
    "Client",
    "ClientTransport",
    "FastMCPStdioTransport",
    "FastMCPTransport",
    "MCPConfigTransport",
    "NodeStdioTransport",
    "NpxStdioTransport",
    "PythonStdioTransport",
    "SSETransport",
    "StdioTransport",
    "StreamableHttpTransport",
    "UvxStdioTransport",
]
