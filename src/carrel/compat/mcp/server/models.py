"""Options of a server that is started."""

from pydantic import BaseModel, ConfigDict

from carrel.compat.mcp.types import ServerCapabilities
from carrel.compat.mcp.types.base import Icon

__all__ = ["InitializationOptions"]


class InitializationOptions(BaseModel):
    """Declaration of a server in the result of ``initialize``."""

    model_config = ConfigDict(defer_build=True)

    server_name: str
    server_version: str
    capabilities: ServerCapabilities
    instructions: str | None = None
    website_url: str | None = None
    icons: list[Icon] | None = None
