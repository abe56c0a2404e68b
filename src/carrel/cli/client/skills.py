"""``carrel skills``: lists the skills of a server, or prints the instructions of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from carrel.cli.client.connection import SERVER_ERROR, ask, failed, read_target, shown
from carrel.cli.client.ls import first_line
from carrel.cli.client.named import named_parser
from carrel.cli.options import Parser
from carrel.cli.terminal.output import table, write_json, write_text
from carrel.errors import ConfigError
from carrel.near_names import near
from carrel.protocol.extensions.skills import SKILLS

if TYPE_CHECKING:
    from carrel.client.client import Client
    from carrel.client.skills import SkillSnapshot

__all__ = ["parser", "run"]

SUMMARY = "List the skills of a server, or verify a skill and print its SKILL.md."
EXAMPLES = """\
examples:
  carrel skills http://127.0.0.1:8000/mcp
  carrel skills http://127.0.0.1:8000/mcp code-review
  carrel skills -- carrel serve --skills ./skills
"""


def parser() -> Parser:
    """Return the argument parser of ``carrel skills``."""
    return named_parser("skills", SUMMARY, EXAMPLES, "skill", "the name of a skill, or the URI of its SKILL.md")


def run(arguments: list[str]) -> int:
    """Run ``carrel skills`` and return the exit code: 0, 1 if the server has no skills, 3 without a connection.

    Raises:
        ConfigError: the arguments are invalid, or there is no such skill.
    """
    options, target = read_target(parser(), arguments)

    async def show(client: Client) -> int:
        if SKILLS.name not in client.session.server_extensions:
            return failed(f"{target.name} has no skills: it does not declare them", SERVER_ERROR)
        if options.skill is not None:
            write_text(await (await choose(client, options.skill)).instructions())
            return 0
        skills = await client.skills.list_skills()
        if options.json:
            write_json([as_json(skill) for skill in skills])
            return 0
        rows = [(shown(skill.name), files_of(skill), shown(skill.uri), about(skill)) for skill in skills]
        write_text(table("Skills", rows) or "It lists no skills.", escape=False)
        return 0

    return ask(target, options, show)


async def choose(client: Client, name: str) -> SkillSnapshot:
    """Return the skill with a URI, or with a name if the name is unique.

    Raises:
        ConfigError: the name is unknown or ambiguous.
    """
    if "://" in name:
        return await client.skills.get_skill(name)
    skills = await client.skills.list_skills()
    found = [skill for skill in skills if skill.name == name]
    if len(found) > 1:
        raise ConfigError(f"{name!r} is the name of {len(found)} skills; give the URI of one: {found[0].uri}")
    if not found:
        raise ConfigError(f"there is no skill {name!r}{near(name, [skill.name for skill in skills])}")
    return found[0]


def as_json(skill: SkillSnapshot) -> dict[str, object]:
    files = "dynamic" if skill.files is None else skill.files
    return {"uri": skill.uri, "frontmatter": skill.frontmatter, "resources": files, "problem": skill.problem}


def files_of(skill: SkillSnapshot) -> str:
    if skill.files is None:
        return "dynamic"
    return f"{len(skill.files)} file{'' if len(skill.files) == 1 else 's'}"


def about(skill: SkillSnapshot) -> str:
    text = first_line(skill.description)
    return shown(text if skill.problem is None else f"cannot be used: {skill.problem}")
