"""Skills extension (``io.modelcontextprotocol/skills``): its methods.

https://github.com/modelcontextprotocol/ext-skills/blob/main/specification/stable/skills.mdx
"""

from carrel.protocol.extension import Extension
from carrel.protocol.methods import RESOURCE_UPDATED, RESOURCES_LIST_CHANGED, RequestType
from carrel.wire.base import PageParams
from carrel.wire.skills import (
    GetSkillParams,
    GetSkillResult,
    ListSkillsResult,
    ReadDirectoryParams,
    ReadDirectoryResult,
)

#: The file that makes a directory a skill.
SKILL_FILE = "SKILL.md"

#: Maximum number of files of a skill, and of bytes in total; hosts need not accept more.
MAX_FILES = 512
MAX_BYTES = 16 * 1024 * 1024

#: Skills are made of resources.
STALE_BY = (RESOURCE_UPDATED.operation, RESOURCES_LIST_CHANGED.operation)

LIST_SKILLS = RequestType(
    "skills/list",
    "list_skills",
    PageParams,
    ListSkillsResult,
    idempotent=True,
    cacheable=True,
    stale_by=STALE_BY,
    verb="list",
    provider_method="list_skills",
    result_field="skills",
    item="skill",
    item_verb="list",
)
GET_SKILL = RequestType(
    "skills/get",
    "get_skill",
    GetSkillParams,
    GetSkillResult,
    idempotent=True,
    cacheable=True,
    stale_by=STALE_BY,
    verb="read",
    target="uri",
    provider_method="get_skill",
    result_field="skill",
    item="skill",
)
READ_DIRECTORY = RequestType(
    "resources/directory/read",
    "read_directory",
    ReadDirectoryParams,
    ReadDirectoryResult,
    idempotent=True,
    verb="list_directory",
    target="uri",
    provider_method="list_directory",
    result_field="resources",
    item="resource",
)

SKILLS = Extension(
    name="io.modelcontextprotocol/skills",
    requests={row.method: row for row in (LIST_SKILLS, GET_SKILL, READ_DIRECTORY)},
)
