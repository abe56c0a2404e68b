"""Skills extension of a server: skills/list, skills/get and resources/directory/read, for all providers.

https://github.com/modelcontextprotocol/ext-skills/blob/main/specification/stable/skills.mdx
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from carrel.protocol.extensions.skills import LIST_SKILLS, SKILLS

if TYPE_CHECKING:
    import os

    from carrel.catalog.provider import Provider
    from carrel.server.catalog_operations import CatalogOperations
    from carrel.server.options import SkillsFolderOptions
    from carrel.server.runtime import Operation, Runtime

__all__ = ["add_folders", "use"]


def use(runtime: Runtime, operations: CatalogOperations) -> None:
    """Declare the skills extension."""
    handlers: dict[str, Operation] = {
        "list_skills": partial(operations.forward, LIST_SKILLS),
        "get_skill": operations.get_skill,
        "read_directory": operations.read_directory,
    }
    runtime.extend(SKILLS, handlers, {"directoryRead": True})


def add_folders(
    providers: list[Provider], folders: Sequence[str | os.PathLike[str]], options: SkillsFolderOptions
) -> None:
    """Add folders of skills to the provider of skills among ``providers``, or to a new one.

    Raises:
        ConfigError: there is no such option, or its value is not valid.
    """
    from carrel.sources.registry import read_options
    from carrel.sources.skills.source import SkillsSource

    there = next((each for each in providers if isinstance(each, SkillsSource)), None)
    source = there or SkillsSource()
    source.add(*folders, options=read_options(SkillsSource.options, options, "skills:"))
    if there is None:
        providers.append(source)
