"""Skills extension: skills/list, skills/get and resources/directory/read.

https://github.com/modelcontextprotocol/ext-skills/blob/main/specification/stable/skills.mdx
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import msgspec
from msgspec import UNSET

from carrel.errors import InvalidCursor, InvalidParams, ResourceForbidden, ResourceNotFound
from carrel.protocol.extensions.skills import SKILLS
from carrel.server.listing import decode_cursor, encode_cursor
from carrel.server.source import Page
from carrel.server.views import Visible, private, shown, source_seen, visible_to
from carrel.wire.skills import GetSkillResult, ListSkillsResult, ReadDirectoryResult, Skill

if TYPE_CHECKING:
    from carrel.protocol.channel import Channel
    from carrel.protocol.server import Call
    from carrel.server.app import Server

__all__ = ["SkillSource", "Skills"]


@runtime_checkable
class SkillSource(Protocol):
    """Optional protocol of a source, beside ``Source``: some of its resources are skills."""

    async def skills(self, cursor: str | None, limit: int) -> Page[Skill]:
        """Return up to ``limit`` skills in a stable order, from the start or from ``cursor``.

        Raises:
            InvalidCursor: the cursor is not one that this source gave out.
        """

    async def skill(self, uri: str) -> Skill:
        """Return the skill whose SKILL.md has this URI.

        Raises:
            ResourceNotFound: there is no such skill.
        """


class Skills:
    """Request handlers of the skills extension."""

    def __init__(self, app: Server) -> None:
        self._app = app
        self._folders: Any = None
        operations = {"list_skills": self.list, "get_skill": self.get, "read_directory": self.read_directory}
        app.extend(SKILLS, operations, {"directoryRead": True})
        app.resources.used = True  # a server with this extension declares resources, whether or not it has any

    def add(self, *folders: str | os.PathLike[str], **options: Any) -> None:
        """Serve the skills in folders. They are one source, so that all of them can have ``skill:`` URIs."""
        if self._folders is None:
            from importlib import import_module

            self._folders = import_module("carrel.sources.skills.source").SkillsSource()
            self._app.share(self._folders)
        self._folders.add(*folders, **options)

    async def list(self, call: Call, channel: Channel) -> ListSkillsResult:
        """Answer skills/list: those of each source, in the order in which the sources were shared."""
        return private(await self._list(call, visible_to(call)), call)

    async def _list(self, call: Call, visible: Visible | None) -> ListSkillsResult:
        cursor = call.params.cursor
        shared = (source_seen(source, visible) for source in self._app.resources.sources)
        sources = [source for source in shared if isinstance(source, SkillSource)]
        segment, position = (0, "") if cursor is UNSET else decode_cursor(call.request.operation, cursor)
        if not isinstance(position, str) or segment > len(sources):
            raise InvalidCursor
        found: list[Skill] = []
        for number in range(segment, len(sources)):
            room = self._app.page_size - len(found)
            if room == 0:
                next_cursor = encode_cursor(call.request.operation, number, "")
                return ListSkillsResult(skills=found, next_cursor=next_cursor)
            page = await sources[number].skills(position or None, room)
            found += (skill_seen(skill, visible) for skill in page.items if visible is None or visible(skill.uri))
            if page.next_cursor is not None:
                next_cursor = encode_cursor(call.request.operation, number, page.next_cursor)
                return ListSkillsResult(skills=found, next_cursor=next_cursor)
            position = ""
        return ListSkillsResult(skills=found)

    async def get(self, call: Call, channel: Channel) -> GetSkillResult:
        """Answer skills/get."""
        visible = visible_to(call)
        source, uri = self._app.resources.find_source(call.params.uri, visible)
        try:
            if not isinstance(source, SkillSource):
                raise ResourceNotFound(uri)
            return private(GetSkillResult(skill=skill_seen(await source.skill(uri), visible)), call)
        except (ResourceNotFound, ResourceForbidden):
            raise InvalidParams(f"No skill is served at {uri[:1000]}", {"uri": uri[:1000]}, parameter="uri") from None

    async def read_directory(self, call: Call, channel: Channel) -> ReadDirectoryResult:
        """Answer resources/directory/read, for the resources of sources: others have nothing inside."""
        visible = visible_to(call)
        source, uri = self._app.resources.find_source(call.params.uri, visible)
        cursor = call.params.cursor
        try:
            if source is None:
                raise ResourceNotFound(uri)
            page = await source.children(uri, None if cursor is UNSET else cursor, self._app.page_size)
        except (ResourceNotFound, ResourceForbidden):
            raise InvalidParams(f"{uri[:1000]} is not a directory", {"uri": uri[:1000]}, parameter="uri") from None
        next_cursor = UNSET if page.next_cursor is None else page.next_cursor
        return ReadDirectoryResult(resources=shown(page.items, visible), next_cursor=next_cursor)


def skill_seen(skill: Skill, visible: Visible | None) -> Skill:
    """Return a skill with those of its files that are visible to a caller."""
    if visible is None or isinstance(skill.resources, str):
        return skill
    return msgspec.structs.replace(skill, resources=[file for file in skill.resources if visible(file.uri)])
