"""Options of a server that is started."""

from pydantic import BaseModel

from carrel.compat.mcp.types.base import Icon
from carrel.compat.mcp.types.capabilities import ServerCapabilities

__all__ = ["InitializationOptions"]


class InitializationOptions(BaseModel):
    """Declaration of a server in the result of ``initialize``."""

    server_name: str
    server_version: str
    capabilities: ServerCapabilities
    instructions: str | None = None
    website_url: str | None = None
    icons: list[Icon] | None = None
