"""Skills: the entry of a skill in a list, its instructions, and how its files compare with the entry."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from carrel.client.skills import SkillSnapshot
from carrel.errors import MCPError, ResourceError, ResourceMismatch
from carrel.host.host import Host
from carrel.printable import printable
from carrel.studio.api import Key, Payload
from carrel.wire.skills import SkillResource

__all__ = ["SkillFile", "SkillProblem", "SkillView", "read_skill"]

Difference: TypeAlias = Literal["size", "digest", "frontmatter", "contents", "unlisted", "entry", "other"]


class SkillProblem(Payload, frozen=True, kw_only=True):
    """Why a skill or a file cannot be used. ``detail`` is English; ``difference`` is "other" for read errors."""

    difference: Difference
    detail: str


class SkillFile(Payload, frozen=True, kw_only=True):
    """Listed file of a skill. ``state`` is "listed" until the file is read."""

    path: str
    uri: str
    size: int
    digest: str
    state: Literal["listed", "verified", "wrong"]
    problem: SkillProblem | None = None


class SkillView(Payload, frozen=True, kw_only=True):
    """Skill of a server. ``instructions`` is the verified text of SKILL.md. A dynamic skill lists no files."""

    key: Key
    name: str
    description: str
    frontmatter: dict[str, Any]
    dynamic: bool
    fingerprint: str | None
    instructions: str | None
    problem: SkillProblem | None
    files: tuple[SkillFile, ...]


async def read_skill(host: Host, server: str, uri: str, *, whole: bool) -> SkillView:
    """Return a skill, and verify SKILL.md against the list of the server. With ``whole``, verify every file.

    Raises:
        MCPError: the server has no such skill, or is not available.
    """
    skill = await host.server(server).client.skills.get_skill(uri)
    instructions, problem = None, None
    try:
        instructions = await skill.instructions()
    except ResourceError as error:
        problem = _problem(error)
    files = []
    for file in skill.files or ():
        if skill.problem is not None:
            files.append(_file(skill, file, "listed"))
        elif file.uri == skill.uri:
            files.append(_file(skill, file, "verified" if problem is None else "wrong", problem))
        elif whole and problem is None:
            files.append(await _verified(skill, file))
        else:
            files.append(_file(skill, file, "listed"))
    return SkillView(
        key=Key(server=server, uri=skill.uri),
        name=printable(skill.name),
        description=skill.description,
        frontmatter=skill.frontmatter,
        dynamic=skill.dynamic,
        fingerprint=skill.fingerprint,
        instructions=instructions,
        problem=problem,
        files=tuple(files),
    )


async def _verified(skill: SkillSnapshot, file: SkillResource) -> SkillFile:
    try:
        await skill.read(file.uri)
    except MCPError as error:
        return _file(skill, file, "wrong", _problem(error))
    return _file(skill, file, "verified")


def _file(
    skill: SkillSnapshot,
    file: SkillResource,
    state: Literal["listed", "verified", "wrong"],
    problem: SkillProblem | None = None,
) -> SkillFile:
    path = printable(file.uri.removeprefix(skill.uri.rpartition("/")[0] + "/"))
    return SkillFile(
        path=path, uri=file.uri, size=file.size, digest=printable(file.digest), state=state, problem=problem
    )


def _problem(error: MCPError) -> SkillProblem:
    difference: Any = error.difference if isinstance(error, ResourceMismatch) else "other"
    return SkillProblem(difference=difference, detail=printable(str(error), 1000))
