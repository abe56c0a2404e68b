"""Shows the skills of a server, and loads one when its user agrees.

    python examples/client_skills.py
    python examples/client_skills.py http://127.0.0.1:8000/mcp

Without a server it asks examples/skills_server.py. Needs pip install 'carrel[client,skills]'.
"""

import asyncio
import sys
from pathlib import Path

from carrel import Client, MCPError
from carrel.client.skills import Skill
from carrel.printable import printable, printable_lines
from carrel.wire.resources import TextResourceContents

SERVER = [sys.executable, str(Path(__file__).with_name("skills_server.py"))]


def approve(skill: Skill) -> bool:
    """Ask the user. What they agree to is this skill of this server, as it is now."""
    server, uri = skill.identity
    print(f"{printable(skill.name)}: {printable(skill.description, 1000)}\n  {printable(uri)} of {printable(server)}")
    for file in skill.files or ():
        print(f"  {printable(file.uri)} ({file.size} bytes)")
    if skill.problem:
        print(f"  cannot be used: {printable(skill.problem)}")
        return False
    try:
        return input("Shall the model use it? (yes/no) ") == "yes"
    except EOFError:
        return False


async def load(skill: Skill) -> None:
    """Print what a model would get: the instructions, and the other files when the instructions speak of them."""
    instructions = await skill.instructions()
    print(
        f"\nInstructions of {printable(skill.identity[1])}, {len(instructions)} characters. They begin with:\n"
        f"{printable_lines(instructions[:60])}…"
    )
    for entry in await skill.directory():
        print(f"  {printable(entry.uri)}")
    for file in skill.files or ():
        path = file.uri.removeprefix(skill.uri.removesuffix("SKILL.md"))
        if path != "SKILL.md" and path.rpartition("/")[2] in instructions:
            contents = await skill.read(path)
            if isinstance(contents, TextResourceContents):
                print(f"{printable(path)}, which they speak of, has {len(contents.text)} characters")


async def main() -> None:
    try:
        async with Client(sys.argv[1] if sys.argv[1:] else SERVER) as client:
            async for skill in client.skills.list_skills():
                if approve(skill):
                    await load(skill)
    except MCPError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    asyncio.run(main())
