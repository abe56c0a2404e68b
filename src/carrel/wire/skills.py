"""Skills: folders of instructions for agents, served file by file (extension ``io.modelcontextprotocol/skills``).

https://github.com/modelcontextprotocol/ext-skills/blob/main/specification/stable/skills.mdx
"""

from __future__ import annotations

from typing import Any, Literal

from carrel.wire.base import CacheableResult, PageParams, PageResult, Params, Wire
from carrel.wire.resources import Resource


class SkillResource(Wire):
    """A file of a skill. ``digest`` is ``sha256:`` and 64 hexadecimal digits, ``size`` is in bytes."""

    uri: str
    digest: str
    size: int


class Skill(Wire):
    """A skill. ``uri`` is the URI of its SKILL.md; ``resources`` are all its files, "dynamic" if generated."""

    uri: str
    frontmatter: dict[str, Any]
    resources: list[SkillResource] | Literal["dynamic"]


class ListSkillsResult(PageResult, kw_only=True):
    skills: list[Skill]


class GetSkillParams(Params, kw_only=True):
    """Parameters of skills/get: the URI of a SKILL.md."""

    uri: str


class GetSkillResult(CacheableResult, kw_only=True):
    skill: Skill


class ReadDirectoryParams(PageParams, kw_only=True):
    """Parameters of resources/directory/read."""

    uri: str


class ReadDirectoryResult(PageResult, kw_only=True):
    """Result of resources/directory/read: direct children of a directory. Not cacheable, although lists are."""

    resources: list[Resource]
