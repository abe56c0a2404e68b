"""Skills extension (``io.modelcontextprotocol/skills``): its methods.

https://github.com/modelcontextprotocol/ext-skills/blob/main/specification/stable/skills.mdx
"""

from carrel.protocol.extension import Extension
from carrel.protocol.revision import Request
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

REQUESTS = (
    Request("skills/list", "list_skills", PageParams, ListSkillsResult, cacheable=True),
    Request("skills/get", "get_skill", GetSkillParams, GetSkillResult, cacheable=True),
    Request("resources/directory/read", "read_directory", ReadDirectoryParams, ReadDirectoryResult),
)

SKILLS = Extension(name="io.modelcontextprotocol/skills", requests={row.method: row for row in REQUESTS})
