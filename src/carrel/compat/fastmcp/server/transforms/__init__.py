"""Transforms of components."""

from typing import TYPE_CHECKING

from carrel.compat.fastmcp.server.transforms.transform import (
    GetPromptNext,
    GetResourceNext,
    GetResourceTemplateNext,
    GetToolNext,
    Transform,
)
from carrel.compat.lazy import lazily

NAMES = {
    "Namespace": "namespace",
    "PromptsAsTools": "prompts_as_tools",
    "ResourcesAsTools": "resources_as_tools",
    "ToolTransform": "tool_transform",
    "VersionFilter": "version_filter",
    "VersionSpec": "version_filter",
    "Visibility": "visibility",
    "is_enabled": "visibility",
}

__all__ = ["GetPromptNext", "GetResourceNext", "GetResourceTemplateNext", "GetToolNext", "Transform", *NAMES]

if not TYPE_CHECKING:
    __getattr__ = lazily(__name__, NAMES)
