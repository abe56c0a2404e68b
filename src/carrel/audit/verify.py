"""Verification of the hash chain of an audit log."""

# ruff: noqa: PTH110, PTH123, PTH208

from __future__ import annotations

import hmac
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from carrel.audit.chain import Chain, split_line
from carrel.audit.file import rotated
from carrel.errors import ConfigError

__all__ = ["Verification", "files_of", "read_lines", "verify_files"]


class Verification(NamedTuple):
    """Result of a verification. ``problems`` name file and line; ``number`` and ``digest`` are of the last line."""

    lines: int
    problems: list[str]
    first: int
    number: int
    digest: str


def files_of(path: str) -> list[str]:
    """Return the files of a log, the oldest first.

    Raises:
        ConfigError: there is no file.
    """
    folder, name = os.path.split(path)
    numbers: list[re.Match[str] | None] = []
    with suppress(FileNotFoundError):
        numbers = [re.fullmatch(re.escape(name) + r"\.([1-9][0-9]{0,8})", each) for each in os.listdir(folder or ".")]
    older = [rotated(path, number) for number in sorted((int(one[1]) for one in numbers if one), reverse=True)]
    found = [*older, *([path] if os.path.exists(path) else [])]
    if not found:
        raise ConfigError(f"there is no file {path}")
    return found


def read_lines(files: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Yield the lines of files, with the place of each.

    Raises:
        ConfigError: a file cannot be read.
    """
    for path in files:
        try:
            with open(path, "rb") as file:
                for number, line in enumerate(file, 1):
                    yield f"{path}:{number}", line.rstrip(b"\r\n")
        except OSError as error:
            raise ConfigError(f"{path} cannot be read: {error.strerror}") from None


def verify_files(files: Sequence[str], key: bytes = b"", most: int = 100) -> Verification:
    """Verify the chain of files, the oldest first. At most ``most`` problems are listed.

    Rotation may have removed the lines before the first file. Then the hash of the line before the first line is
    unknown, and the first line itself is not verified.

    Raises:
        ConfigError: a file cannot be read.
    """
    chain: Chain | None = None
    problems: list[str] = []
    lines = first = 0
    for place, line in read_lines(files):
        lines += 1
        found = split_line(line)
        if found is None:
            problems.append(f"{place}: the line has no hash: it was added, changed or not written completely")
            continue
        body, number, digest = found
        if chain is None:
            first = number
            if number > 1:
                chain = Chain(key, number, digest)
                continue
            chain = Chain(key)
        if number != chain.number + 1:
            missing = number - chain.number - 1
            kind = f"{missing} lines before it are missing" if missing > 0 else "the line is repeated or moved"
            problems.append(f"{place}: line {number} follows line {chain.number}: {kind}")
        elif not hmac.compare_digest(chain.hash(body), digest):
            problems.append(f"{place}: line {number} was changed, or its hash was made with another key")
        chain = Chain(key, number, digest)
    last = chain or Chain(key)
    return Verification(lines, problems[:most], first, last.number, last.digest)
