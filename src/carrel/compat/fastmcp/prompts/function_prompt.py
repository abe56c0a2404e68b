"""Prompt of a function, where 3.x has it."""

from carrel.compat.fastmcp.prompts.prompt import FunctionPrompt, prompt

__all__ = ["FunctionPrompt", "prompt"]
