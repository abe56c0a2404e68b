"""Synchronous clients and hosts, for scripts and notebooks: the same methods and types without ``await``.

with Client("https://example.org/mcp") as client:
    for resource in client.list_resources(): ...
    result = client.call_tool("find", {"query": "lamp"})
"""

from carrel.sync.client import Client
from carrel.sync.handlers import Handlers
from carrel.sync.host import Host
from carrel.sync.paged_list import PagedList
from carrel.sync.tools import VendorTools, tools_of

__all__ = ["Client", "Handlers", "Host", "PagedList", "VendorTools", "tools_of"]
