"""A server that provides its own instructions: the skills in a folder, and a resource that they refer to.

    python examples/skills_server.py

An application that supports skills lists them, asks its user, and loads a SKILL.md when the model needs it. Other
applications see resources: skill://meeting-notes/SKILL.md.
"""

from pathlib import Path

from carrel import Server

app = Server(
    "minutes",
    version="1.0",
    instructions="To write minutes, follow skill://meeting-notes/SKILL.md.",
)
app.skills(Path(__file__).parent / "skills")


@app.resource("meeting://{date}", mime_type="text/plain")
async def meeting(date: str) -> str:
    """The rough notes of a meeting."""
    return f"{date}. Ana, Bo. Shelf three creaks. Bo will tighten the screws by Friday. New lamp? Next time."


if __name__ == "__main__":
    app.run()
