"""Registry of the prompts of a server, in both generations."""

from __future__ import annotations

from typing import Any

from carrel.compat.loggers import get_logger

__all__ = ["PromptManager"]

logger = get_logger(__name__)


class PromptManager:
    """Prompts by name. The first prompt of a name stays."""

    def __init__(self, warn_on_duplicate_prompts: bool = True) -> None:
        self.warn_on_duplicate_prompts = warn_on_duplicate_prompts
        self._prompts: dict[str, Any] = {}

    def get_prompt(self, name: str) -> Any:
        """Return a prompt; None if there is no such prompt."""
        return self._prompts.get(name)

    def list_prompts(self) -> list[Any]:
        """Return all prompts, in the order of their registration."""
        return list(self._prompts.values())

    def add_prompt(self, prompt: Any) -> Any:
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

    async def render_prompt(self, name: str, arguments: dict[str, Any] | None = None, context: Any = None) -> Any:
        """Return the messages of a prompt.

        Raises:
            ValueError: no prompt has this name, or its function failed.
        """
        prompt = self._prompts.get(name)
        if prompt is None:
            raise ValueError(f"Unknown prompt: {name}")
        return await prompt.render(arguments, context=context)
