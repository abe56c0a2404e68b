"""Prompts of a server."""

from carrel.compat.fastmcp.prompts.prompt import (
    FunctionPrompt,
    Message,
    Prompt,
    PromptArgument,
    PromptMessage,
    PromptResult,
    prompt,
)

__all__ = ["FunctionPrompt", "Message", "Prompt", "PromptArgument", "PromptMessage", "PromptResult", "prompt"]
