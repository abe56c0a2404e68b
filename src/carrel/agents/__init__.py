"""Tools of MCP servers in the formats of vendors of language models and of agent frameworks.

tools = await host.tools("anthropic")          # of all servers of a host
tools = await tools_of(client, "anthropic")    # of one server
response = await anthropic.messages.create(tools=tools, …)
messages += await tools.run(response)
"""

from carrel.agents.calls import Approve, Toolbox, ToolUse
from carrel.agents.formats import content_of, tools_of
from carrel.agents.sources import ToolSource
from carrel.agents.vendor_tools import VendorTools

__all__ = ["Approve", "ToolSource", "ToolUse", "Toolbox", "VendorTools", "content_of", "tools_of"]
