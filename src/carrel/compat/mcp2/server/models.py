"""Options of a server that is started."""

from typing import Any

from pydantic import BaseModel, ConfigDict

from carrel.compat.mcp2 import types

__all__ = ["InitializationOptions"]

#: For pydantic, which reads annotations at run time.
ServerCapabilities: Any = types.ServerCapabilities
Icon: Any = types.Icon


class InitializationOptions(BaseModel):
    """Declaration of a server in the result of ``initialize``."""

    model_config = ConfigDict(defer_build=True)

    server_name: str
    server_version: str
    title: str | None = None
    description: str | None = None
    capabilities: ServerCapabilities
    instructions: str | None = None
    website_url: str | None = None
    icons: list[Icon] | None = None
