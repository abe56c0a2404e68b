"""Transports of a client."""

from carrel.compat.fastmcp.client.transports.base import ClientTransport
from carrel.compat.fastmcp.client.transports.config import MCPConfigTransport, infer_transport
from carrel.compat.fastmcp.client.transports.http import (
    HTTPClientTransport,
    SSETransport,
    StreamableHttpTransport,
    status_errors,
)
from carrel.compat.fastmcp.client.transports.memory import FastMCPTransport
from carrel.compat.fastmcp.client.transports.stdio import (
    FastMCPStdioTransport,
    NodeStdioTransport,
    NpxStdioTransport,
    PythonStdioTransport,
    StdioTransport,
    UvxStdioTransport,
)

__all__ = [
    "ClientTransport",
    "FastMCPStdioTransport",
    "FastMCPTransport",
    "HTTPClientTransport",
    "MCPConfigTransport",
    "NodeStdioTransport",
    "NpxStdioTransport",
    "PythonStdioTransport",
    "SSETransport",
    "StdioTransport",
    "StreamableHttpTransport",
    "UvxStdioTransport",
    "infer_transport",
    "status_errors",
]
