"""Prompts of a server. Their models are created on first use."""

from typing import TYPE_CHECKING

from carrel.compat.lazy import lazily

NAMES = {"Prompt": "base", "PromptManager": "manager", "base": "base", "manager": "manager"}

__all__ = sorted(NAMES)

if not TYPE_CHECKING:
    __getattr__ = lazily(__name__, NAMES)
