"""Agent Skills as resources, listed by the skills extension."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import aclosing
from typing import Any

from carrel.catalog.provider import Change, Interest, Page, Request
from carrel.log import Log
from carrel.sources.folder.patterns import read_globs
from carrel.sources.folder.source import FolderSource
from carrel.sources.skills.folder import SkillFolder
from carrel.sources.skills.options import SkillsOptions
from carrel.sources.skills.reader import SCHEME, SkillsReader
from carrel.sources.watches import Batches
from carrel.sources.workers import Workers
from carrel.wire.skills import Skill

__all__ = ["SkillsSource"]

log = Log("carrel.sources")


class SkillsSource(FolderSource[SkillsReader]):
    """Provider of the skills in a folder, given by its path or as ``skills:PATH``, and in others.

    If several have the same top-level name, the first folder wins. ``add`` adds folders, with options of
    their own, before the provider is started.

    Raises:
        ConfigError: ``exclude`` has an invalid pattern.
    """

    name = "skills"
    prefixes = (SCHEME,)
    options = SkillsOptions

    def __init__(
        self,
        target: str | os.PathLike[str] | None = None,
        options: SkillsOptions = SkillsOptions(),  # noqa: B008
    ) -> None:
        super().__init__(SkillsReader(), Workers(self, "carrel-skills"))
        if target is not None:
            self.add(os.fspath(target).removeprefix("skills:"), options=options)

    def add(self, *folders: str | os.PathLike[str], options: SkillsOptions = SkillsOptions()) -> None:  # noqa: B008
        """Add folders of skills.

        Raises:
            ConfigError: ``exclude`` has an invalid pattern.
        """
        read_globs("exclude", options.exclude)
        self._reader.folders += [SkillFolder(path, options) for path in folders]

    # Skills

    async def list_skills(self, request: Request) -> Page[Skill]:
        """Return a page of the skills, sorted by path, with each skill before its nested skills."""
        return await self._run(request, lambda reader: reader.list_skills(request.cursor, max(request.limit, 1)))

    async def get_skill(self, uri: str, request: Request) -> Skill:
        """Return the skill whose SKILL.md has this URI."""
        return await self._run(request, lambda reader: reader.get_skill(uri))

    # Changes

    def watch(self, interest: Interest) -> AsyncGenerator[Collection[Change], None]:
        """Return the changes of skill files.

        Raises:
            ConfigError: watchfiles is not installed, or the system does not allow watching.
        """
        return self._resolve(super().watch(interest))

    async def _resolve(self, batches: Batches) -> AsyncGenerator[Collection[Change], None]:
        """Yield the changes of skill files, given the changes of all files.

        A SKILL.md with new frontmatter is listed differently: it is created.
        """
        before: dict[str, Any] | None = None
        touched: list[Change] = []
        async with aclosing(batches):
            async for batch in batches:
                if not self._workers:
                    return
                touched += batch
                try:
                    now = await self._workers.run("", self._reader.survey)
                except OSError as error:  # the process can open no more files; the changes are sent with the next batch
                    log.warning("changes of skills are not told for the moment: %s", error.strerror)
                    continue
                changes = [] if before is None else compare(before, now, touched)
                touched = []
                if changes or before is None:
                    yield changes
                before = now


def compare(before: Mapping[str, Any], now: Mapping[str, Any], touched: Collection[Change]) -> list[Change]:
    """Return the changes of skill files, given their URIs and frontmatter before and now.

    ``touched`` has the changes of all files, whether or not they belong to skills.
    """
    changes = [Change("removed", uri) for uri in before if uri not in now]
    changes += [Change("created", uri) for uri, value in now.items() if uri not in before or before[uri] != value]
    changed = {change.uri for change in touched if change.uri in before and change.uri in now}
    return changes + [Change("changed", uri) for uri in changed if before[uri] == now[uri]]
