"""Providers of components."""

from typing import TYPE_CHECKING

from carrel.compat.lazy import lazily

NAMES = {
    "AggregateProvider": "aggregate",
    "ClaudeSkillsProvider": "skills",
    "FastMCPProvider": "fastmcp_provider",
    "FileSystemProvider": "filesystem",
    "LocalProvider": "local_provider",
    "OpenAPIProvider": "openapi",
    "Provider": "base",
    "ProxyProvider": "remote",
    "SkillProvider": "skills",
    "SkillsDirectoryProvider": "skills",
    "SkillsProvider": "skills",
}

__all__ = sorted(NAMES)

if not TYPE_CHECKING:
    __getattr__ = lazily(__name__, NAMES)
