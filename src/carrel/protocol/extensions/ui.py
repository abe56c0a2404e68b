"""MCP Apps extension: pages that a host shows for tools. Adds no methods; clients of every revision may declare it.

https://github.com/modelcontextprotocol/ext-apps/blob/main/specification/2026-01-26/apps.mdx
"""

from carrel.protocol.extension import Extension

UI = Extension(name="io.modelcontextprotocol/ui", handshake=True)
