"""Prompts of a server."""

from carrel.compat.mcp.server.fastmcp.prompts.base import Prompt
from carrel.compat.mcp.server.fastmcp.prompts.manager import PromptManager

__all__ = ["Prompt", "PromptManager"]
