"""Prompts: messages to begin with, with arguments that complete themselves.

    python examples/prompts.py

starts it on stdio, for a client that speaks to it there.
"""

from typing import Literal

from carrel import Server
from carrel.wire.content import ResourceLink

app = Server("editor", version="1.0")


@app.prompt(title="Proofread")
async def proofread(uri: str, language: Literal["中文", "Deutsch", "English"] = "English") -> list[object]:
    """Have a text proofread."""
    return [f"Proofread the following text. Answer in {language}.", ResourceLink(uri, "the text")]


if __name__ == "__main__":
    app.run()
