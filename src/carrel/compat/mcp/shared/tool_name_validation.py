"""Names of tools that every client accepts (SEP-986)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from carrel.compat.loggers import get_logger

__all__ = ["ToolNameValidationResult", "issue_tool_name_warning", "validate_and_warn_tool_name", "validate_tool_name"]

logger = get_logger(__name__)

SEP_986_URL = "https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool-names"
LONGEST = 128
ALLOWED = re.compile(r"[A-Za-z0-9._-]")
#: Problematic characters, and their names in warnings.
TROUBLE = {" ": "spaces", ",": "commas"}


@dataclass
class ToolNameValidationResult:
    """Whether a name is valid, and warnings about it."""

    is_valid: bool
    warnings: list[str] = field(default_factory=list)


def validate_tool_name(name: str) -> ToolNameValidationResult:
    """Check the name of a tool."""
    if not name:
        return ToolNameValidationResult(False, ["Tool name cannot be empty"])
    if len(name) > LONGEST:
        length = f"Tool name exceeds maximum length of {LONGEST} characters (current: {len(name)})"
        return ToolNameValidationResult(False, [length])
    found = [
        f"Tool name contains {what}, which may cause parsing issues" for char, what in TROUBLE.items() if char in name
    ]
    found += [
        f"Tool name starts or ends with a {what}, which may cause parsing issues in some contexts"
        for char, what in (("-", "dash"), (".", "dot"))
        if name.startswith(char) or name.endswith(char)
    ]
    others = dict.fromkeys(char for char in name if not ALLOWED.match(char))
    if others:
        found.append(f"Tool name contains invalid characters: {', '.join(map(repr, others))}")
        found.append("Allowed characters are: A-Z, a-z, 0-9, underscore (_), dash (-), and dot (.)")
    return ToolNameValidationResult(not others, found)


def issue_tool_name_warning(name: str, warnings: list[str]) -> None:
    """Log the warnings about the name of a tool."""
    if not warnings:
        return
    logger.warning(f'Tool name validation warning for "{name}":')
    for warning in warnings:
        logger.warning(f"  - {warning}")
    logger.warning("Tool registration will proceed, but this may cause compatibility issues.")
    logger.warning(f"See SEP-986 ({SEP_986_URL}) for the format of names.")


def validate_and_warn_tool_name(name: str) -> bool:
    """Check the name of a tool, log the warnings, and return whether the name is valid."""
    result = validate_tool_name(name)
    issue_tool_name_warning(name, result.warnings)
    return result.is_valid
