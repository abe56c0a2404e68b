"""Prompts of a server by name."""

from carrel.compat import managers

__all__ = ["PromptManager"]


class PromptManager(managers.PromptManager):
    """Prompts by name. The first prompt of a name stays."""
