"""Dependencies of tools, resources and prompts, where 3.x has them."""

from typing import TYPE_CHECKING

from carrel.compat.fastmcp.server.dependencies import (
    CallArgument,
    CurrentAccessToken,
    CurrentContext,
    CurrentFastMCP,
    CurrentHeaders,
    CurrentRequest,
    CycleError,
    Dependency,
    Depends,
    Progress,
    TokenClaim,
)
from carrel.compat.lazy import lazily

__all__ = [
    "CallArgument",
    "CurrentAccessToken",
    "CurrentContext",
    "CurrentFastMCP",
    "CurrentHeaders",
    "CurrentRequest",
    "CycleError",
    "Dependency",
    "Depends",
    "Progress",
    "TokenClaim",
]

TASKS = "use carrel.Server and @app.tool(task=...)"
INSTEAD = {"CurrentDocket": TASKS, "CurrentWorker": TASKS}

if not TYPE_CHECKING:
    __getattr__ = lazily(__name__, {}, INSTEAD)
