"""Prompts: message templates with arguments and completion.

    python examples/prompts.py

serves on stdio, for a client that starts this command.
"""

from typing import Literal

from carrel import Server
from carrel.types import ResourceLink

app = Server("editor", version="1.0")


@app.prompt(title="Proofread")
async def proofread(uri: str, language: Literal["中文", "Deutsch", "English"] = "English") -> list[object]:
    """Have a text proofread."""
    return [f"Proofread the following text. Answer in {language}.", ResourceLink(uri, "the text")]


if __name__ == "__main__":
    app.run()
