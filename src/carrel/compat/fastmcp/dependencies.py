"""Dependencies of tools, resources and prompts, where 3.x has them."""

from typing import TYPE_CHECKING

from carrel.compat.fastmcp.server.dependencies import (
    CurrentContext,
    CurrentFastMCP,
    CurrentHeaders,
    CurrentRequest,
    Dependency,
    Depends,
    Progress,
)
from carrel.compat.lazy import lazily

__all__ = [
    "CurrentContext",
    "CurrentFastMCP",
    "CurrentHeaders",
    "CurrentRequest",
    "Dependency",
    "Depends",
    "Progress",
]

TASKS = "use carrel.Server and @app.tool(task=...)"
CLAIMS = "use carrel.Server with carrel.security.Authorization (docs/authorization.md)"
INSTEAD = {"CurrentDocket": TASKS, "CurrentWorker": TASKS, "CurrentAccessToken": CLAIMS, "TokenClaim": CLAIMS}

if not TYPE_CHECKING:
    __getattr__ = lazily(__name__, {}, INSTEAD)
