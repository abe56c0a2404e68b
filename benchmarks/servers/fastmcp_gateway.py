"""FastMCP's proxy on stdio before one other server: fastmcp_gateway.py stdio (URL | script of this folder)."""

import sys

from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from fastmcp.server import create_proxy
from gateway_target import command

if __name__ == "__main__":
    target = sys.argv[2]
    if target.startswith("http:"):
        transport = StreamableHttpTransport(target)
    else:
        program, *arguments = command(target)
        transport = StdioTransport(program, arguments)
    create_proxy(transport, name="bench").run(show_banner=False, log_level="WARNING")
