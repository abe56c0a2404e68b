"""Prompts of a server by name."""

from __future__ import annotations

from typing import Any

from carrel.compat.mcp2.server.mcpserver.context import Context
from carrel.compat.mcp2.server.mcpserver.prompts.base import Prompt
from carrel.compat.mcp2.shared.logging import get_logger

__all__ = ["PromptManager"]

logger = get_logger(__name__)


class PromptManager:
    """Prompts by name. The first prompt of a name stays."""

    def __init__(self, warn_on_duplicate_prompts: bool = True) -> None:
        self.warn_on_duplicate_prompts = warn_on_duplicate_prompts
        self._prompts: dict[str, Prompt] = {}

    def get_prompt(self, name: str) -> Prompt | None:
        """Return a prompt; None if there is no such prompt."""
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

    def remove_prompt(self, name: str) -> None:
        """Remove a prompt.

        Raises:
            ValueError: there is no such prompt.
        """
        if self._prompts.pop(name, None) is None:
            raise ValueError(f"Unknown prompt: {name}")

    async def render_prompt(self, name: str, arguments: dict[str, Any] | None, context: Context[Any, Any]) -> Any:
        """Return the messages of a prompt.

        Raises:
            ValueError: there is no such prompt, or it failed.
        """
        prompt = self._prompts.get(name)
        if prompt is None:
            raise ValueError(f"Unknown prompt: {name}")
        return await prompt.render(arguments, context)
