"""Prompts of a server."""

from carrel.compat.mcp2.server.mcpserver.prompts.base import Prompt
from carrel.compat.mcp2.server.mcpserver.prompts.manager import PromptManager

__all__ = ["Prompt", "PromptManager"]
