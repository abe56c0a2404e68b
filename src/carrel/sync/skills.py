"""Skills of the server of a synchronous client."""

from __future__ import annotations

from collections.abc import AsyncIterator

from carrel.client import server_skills, skills
from carrel.sync.loop import run, waiting
from carrel.sync.paged_list import PagedList
from carrel.wire.resources import Resource

__all__ = ["ServerSkills", "SkillSnapshot"]


class SkillSnapshot:
    """Snapshot of a skill: ``carrel.client.skills.SkillSnapshot`` without ``await``, which is its ``snapshot``."""

    def __init__(self, snapshot: skills.SkillSnapshot) -> None:
        self.snapshot = snapshot
        """The skill with its metadata: ``uri``, ``frontmatter``, ``files``, ``problem``, ``fingerprint``."""

    def __repr__(self) -> str:
        return repr(self.snapshot)

    @property
    def uri(self) -> str:
        """The URI of SKILL.md, which identifies the skill at the server."""
        return self.snapshot.uri

    @property
    def name(self) -> str:
        """The skill's name, which is not unique."""
        return self.snapshot.name

    @property
    def description(self) -> str:
        """The server's description of the skill and when to use it."""
        return self.snapshot.description

    instructions = waiting("snapshot", skills.SkillSnapshot.instructions)
    read = waiting("snapshot", skills.SkillSnapshot.read)
    directory = waiting("snapshot", skills.SkillSnapshot.directory)

    def refresh(self) -> SkillSnapshot:
        """Return the skill as it is now. See ``SkillSnapshot.refresh``."""
        return SkillSnapshot(run(self.snapshot.refresh()))


class ServerSkills:
    """Skills of one server: ``client.skills`` without ``await``."""

    def __init__(self, skills: server_skills.ServerSkills) -> None:
        self._skills = skills

    def list_skills(self) -> PagedList[SkillSnapshot]:
        """List the skills that the server lists. See ``ServerSkills.list_skills``."""

        async def items() -> AsyncIterator[SkillSnapshot]:
            async for skill in self._skills.list_skills():
                yield SkillSnapshot(skill)

        return PagedList(items)

    def get_skill(self, uri: str) -> SkillSnapshot:
        """Return the skill whose SKILL.md has this URI. See ``ServerSkills.get_skill``."""
        return SkillSnapshot(run(self._skills.get_skill(uri)))

    def list_directory(self, uri: str) -> PagedList[Resource]:
        """List the direct children of a directory. See ``Client.list_directory``."""
        return PagedList(lambda: aiter(self._skills.list_directory(uri)))
