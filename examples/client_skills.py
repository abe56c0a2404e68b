"""Lists the skills of a server, and loads a skill if the user agrees.

    python examples/client_skills.py
    python examples/client_skills.py http://127.0.0.1:8000/mcp

Without a server, it connects to examples/skills_server.py. Requires pip install 'carrel[client,skills]'.
"""

import asyncio
import sys
from pathlib import Path

from carrel import Client, MCPError
from carrel.types import SkillSnapshot, TextResourceContents, printable, printable_lines

SERVER = [sys.executable, str(Path(__file__).with_name("skills_server.py"))]


def approve(skill: SkillSnapshot) -> bool:
    """Ask the user. The approval applies to the current contents of this skill on this server."""
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


async def load(skill: SkillSnapshot) -> None:
    """Print the input of a model: the instructions, and the other files when the instructions refer to them."""
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
