"""Static bearer tokens from a file: one line per token, with only its SHA-256 hash.

    # hash of the token                                            subject scopes
    sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c  alice   notes:read notes:write

``carrel token add alice notes:read`` generates a token and adds its line. The file is reloaded when it changes.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Sequence
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import NamedTuple, Unpack

from carrel.errors import ConfigError
from carrel.log import Log
from carrel.protocol.principal import Principal
from carrel.regular_file import replace_file, timestamp_of
from carrel.security.server.bearer import BearerAuthorization, InvalidToken, Options
from carrel.security.server.scopes import read_scopes

__all__ = ["StaticTokens", "make_token", "read_lines", "words_of", "write_lines"]

log = Log("carrel.security")

ALGORITHM = "sha256:"
PREFIX = "carrel_"

#: Seconds between two checks for whether the file has changed.
PAUSE = 1.0


class StaticToken(NamedTuple):
    """Parsed line of the token file."""

    digest: bytes
    principal: Principal


class StaticTokens(BearerAuthorization):
    """Authorization by static tokens, whose hashes are in a file.

    If the file is missing, all tokens are rejected. An invalid line is an error at the start; later, it is logged and
    skipped.

    Raises:
        ConfigError: the file cannot be read, or a line of it is invalid.
    """

    def __init__(self, path: str | PathLike[str], **options: Unpack[Options]) -> None:
        super().__init__(**options)
        self._path = Path(path)
        self._entries, problems = self._read()
        if problems:
            raise ConfigError(problems[0])
        self._seen = timestamp_of(self._path)
        self._looked = self.monotonic()

    async def verify(self, token: str) -> Principal:
        """Return the principal of a token.

        Raises:
            InvalidToken: the token's hash is not in the file.
        """
        now = self.monotonic()
        if now >= self._looked + PAUSE:
            self._looked = now
            self._reload()
        digest = sha256(token.encode("ascii")).digest()
        found: Principal | None = None
        for entry in self._entries:  # compare all hashes, for constant time
            if hmac.compare_digest(entry.digest, digest):
                found = entry.principal
        if found is None:
            raise InvalidToken("The access token is not valid")
        return found

    def _reload(self) -> None:
        seen = timestamp_of(self._path)
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self._entries, problems = self._read()
        except ConfigError as error:
            self._entries, problems = [], [f"{error}; all requests are refused"]
        for problem in problems:
            log.error("%s", problem)
        log.info("%s: %d tokens", self._path, len(self._entries))

    def _read(self) -> tuple[list[StaticToken], list[str]]:
        """Return the entries of the file, and error messages for the invalid lines."""
        lines = read_lines(self._path)
        entries: list[StaticToken] = []
        problems: list[str] = []
        for number, line in enumerate(lines, 1):
            words = words_of(line)
            if not words:
                continue
            try:
                entries.append(self._entry(words))
            except ConfigError as error:
                problems.append(f"{self._path}, line {number}: {error}")
        return entries, problems

    def _entry(self, words: Sequence[str]) -> StaticToken:
        mark, _, hexadecimal = words[0].partition(":")
        if mark + ":" != ALGORITHM or len(hexadecimal) != 64 or not set(hexadecimal) <= set("0123456789abcdefABCDEF"):
            raise ConfigError(
                "a line begins with sha256: and the hash of a token, 64 hexadecimal digits (never the token itself)"
            )
        if len(words) < 2:
            raise ConfigError("the hash must be followed by the subject of the token")
        scopes = self.scopes.expand(read_scopes(words[2:], "the scopes"))
        principal = Principal(
            subject=words[1],
            scopes=scopes,
            token_id=hexadecimal[:12].lower(),
            view=self.scopes.view(scopes),
        )
        return StaticToken(bytes.fromhex(hexadecimal), principal)


def read_lines(path: Path) -> list[str]:
    """Return the lines of a file of tokens.

    Raises:
        ConfigError: the file cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        advice = "; carrel token add NAME makes it" if isinstance(error, FileNotFoundError) else ""
        raise ConfigError(f"tokens cannot be read from {path}: {error.strerror}{advice}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"tokens cannot be read from {path}: it is not text in UTF-8") from None


def words_of(line: str) -> list[str]:
    """Return the words of a line of a file of tokens: the hash, the subject and the scopes; none of a comment."""
    return line.partition("#")[0].split()


def write_lines(path: Path, lines: Sequence[str]) -> None:
    """Write the lines of a file of tokens, which only its owner may read. A server never sees a half of it.

    Raises:
        ConfigError: the file cannot be written.
    """
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
    try:
        replace_file(path, "".join(f"{line}\n" for line in lines).encode(), mode=mode)
    except OSError as error:
        raise ConfigError(f"tokens cannot be written to {path}: {error.strerror}") from None


def make_token(subject: str, scopes: Sequence[str] = ()) -> tuple[str, str]:
    """Return a new token and its line for the token file.

    Raises:
        ConfigError: the name or a scope is not valid in the file.
    """
    if "#" in subject or subject.split() != [subject]:
        raise ConfigError(f"{subject!r} cannot be a name: it must be one word without #")
    read_scopes(scopes, "the scopes")
    if any("#" in scope for scope in scopes):
        raise ConfigError("a scope in a file must be without #")
    token = PREFIX + secrets.token_urlsafe(32)
    return token, " ".join((ALGORITHM + sha256(token.encode()).hexdigest(), subject, *scopes))
