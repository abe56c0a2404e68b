"""Skills extension of a server: skills/list, skills/get and resources/directory/read, for all providers.

https://github.com/modelcontextprotocol/ext-skills/blob/main/specification/stable/skills.mdx
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from carrel.protocol.extensions.skills import SKILLS

if TYPE_CHECKING:
    from carrel.server.catalog_operations import CatalogOperations
    from carrel.server.runtime import Runtime

__all__ = ["use"]


def use(runtime: Runtime, operations: CatalogOperations) -> None:
    """Declare the skills extension."""
    handlers = {
        "list_skills": operations.list_skills,
        "get_skill": operations.get_skill,
        "read_directory": operations.read_directory,
    }
    runtime.extend(SKILLS, handlers, {"directoryRead": True})
