"""Registry of the prompts of a server."""

from __future__ import annotations

from typing import Any

from carrel.compat.mcp.server.fastmcp.prompts.base import Message, Prompt
from carrel.log import Log

__all__ = ["PromptManager"]

logger = Log(__name__)


class PromptManager:
    """Prompts by name. The first one of a name stays."""

    def __init__(self, warn_on_duplicate_prompts: bool = True) -> None:
        self.warn_on_duplicate_prompts = warn_on_duplicate_prompts
        self._prompts: dict[str, Prompt] = {}

    def get_prompt(self, name: str) -> Prompt | None:
        """Return a prompt, or None."""
        return self._prompts.get(name)

    def list_prompts(self) -> list[Prompt]:
        """Return all prompts, in the order of their registration."""
        return list(self._prompts.values())

    def add_prompt(self, prompt: Prompt) -> Prompt:
        """Register a prompt, unless there is one of that name."""
        known = self._prompts.setdefault(prompt.name, prompt)
        if known is not prompt and self.warn_on_duplicate_prompts:
            logger.warning("Prompt already exists: %s", prompt.name)
        return known

    async def render_prompt(
        self, name: str, arguments: dict[str, Any] | None = None, context: Any = None
    ) -> list[Message]:
        """Return the messages of a prompt.

        Raises:
            ValueError: no prompt has this name, or its function failed.
        """
        prompt = self._prompts.get(name)
        if prompt is None:
            raise ValueError(f"Unknown prompt: {name}")
        return await prompt.render(arguments, context=context)
