"""Registry of the prompts of a server: the same in both generations."""

from carrel.compat.mcp.server.fastmcp.prompts.manager import PromptManager

__all__ = ["PromptManager"]
