"""Match patterns in log entries with RE2, in time linear in the text for every pattern, and redact secrets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from carrel.errors import ConfigError, InvalidParams
from carrel.sources.logs.entries import Redact

__all__ = ["matcher", "redactor"]

MAX_PATTERN = 1000  # characters
MEMORY = 8 * 1024 * 1024  # bytes that a pattern may take
PLAIN = frozenset(" -_/:,;@#%&=<>!~'\"")  # with letters and digits: text that means itself

SECRETS = (
    r"(?i)((?:password|passwd|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|client[_-]?secret)[\"']?\s*[:=]\s*)"
    r"(\"[^\"]*\"|'[^']*'|[^\s,;&\"']+)",
    r"(?i)(authorization[\"']?\s*[:=]\s*[\"']?(?:bearer|basic|token)?\s*)([A-Za-z0-9+/=._~-]{6,})",
    r"([a-z][a-z0-9+.-]*://[^\s:/@]*:)([^\s/@]+)@",
    r"()(\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*|\bAKIA[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{30,})",
)
ENDS = ("", "", "@", "")


def matcher(pattern: str) -> Callable[[str], bool]:
    """Return a function that searches a text for a pattern, in time linear in the text.

    Raises:
        InvalidParams: the pattern is not a valid RE2 pattern.
    """
    if len(pattern) > MAX_PATTERN:
        raise InvalidParams(f"Invalid params: match: a pattern has at most {MAX_PATTERN} characters", parameter="match")
    if all(character.isalnum() or character in PLAIN for character in pattern):
        return lambda text: pattern in text
    try:
        compiled = compiled_pattern(pattern)
    except ValueError as error:
        message = f"Invalid params: match: {pattern[:100]!r} is not a pattern of RE2 ({error}); text means itself"
        raise InvalidParams(message, parameter="match") from None
    return lambda text: compiled.search(text) is not None


def redactor(patterns: Iterable[str], *, secrets: bool) -> Redact | None:
    """Return a function that replaces matches with ``***``, or None if there are no patterns to redact.

    Raises:
        ConfigError: a pattern is not a valid RE2 pattern, or the package is missing.
    """
    try:
        rules = [(compiled_pattern(pattern), "***") for pattern in patterns]
        if secrets:
            ended = zip(SECRETS, ENDS, strict=True)
            rules += [(compiled_pattern(pattern), rf"\1***{end}") for pattern, end in ended]
    except ValueError as error:
        raise ConfigError(f"redact: a pattern is not one of RE2: {error}") from None
    if not rules:
        return None

    def redact(text: str) -> str:
        for rule, replacement in rules:
            text = rule.sub(replacement, text)
        return text

    return redact


def compiled_pattern(pattern: str) -> Any:
    """Compile a pattern.

    Raises:
        ValueError: the pattern is not a valid RE2 pattern.
        ConfigError: the package is missing.
    """
    try:
        import re2  # type: ignore[import-untyped]
    except ImportError:
        raise ConfigError("patterns in logs need the package google-re2: pip install 'carrel[logs]'") from None
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MEMORY
    try:
        return re2.compile(pattern, options)
    except (re2.error, UnicodeEncodeError) as error:
        reason = error.args[0] if error.args else "not valid"
        raise ValueError(reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)) from None
