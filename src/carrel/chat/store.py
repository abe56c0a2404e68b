"""Store of conversations: one JSON Lines file each, readable only by its user, to which messages are appended.

The first line is a header. The other lines are messages, replacements of all messages (after a compaction), and changes
of the model or the title. A line that a crash truncated is skipped.
"""

from __future__ import annotations

import os
import secrets
import shutil
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from carrel.chat.compaction import ATTACHED
from carrel.chat.model import Usage
from carrel.errors import ConfigError
from carrel.near_names import did_you_mean
from carrel.protocol.encoding import encode
from carrel.wire.client_features import SamplingMessage, blocks_of
from carrel.wire.content import TextContent
from carrel.wire.resources import read_contents

__all__ = ["ChatFile", "ChatStore", "Saved", "default_chats", "title_of"]

SUFFIX = ".jsonl"
#: Ending of the folder with the images and audio of a conversation.
MEDIA = ".media"
TITLE = 60


class ChatLine(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel"):
    """Line of a file: the first one (``chat``), or ``message``, ``messages``, ``usage``, ``title`` or ``model``."""

    at: str = ""
    chat: str | None = None
    title: str | None = None
    model: str | None = None
    targets: list[str] | None = None
    message: SamplingMessage | None = None
    messages: list[SamplingMessage] | None = None
    usage: Usage | None = None
    cost: float | None = None


class Saved(msgspec.Struct, kw_only=True):
    """Saved conversation: id, start, last change, model, targets, messages and usage. ``name`` is a chosen title."""

    id: str
    began: str
    changed: str
    model: str
    targets: list[str]
    messages: list[SamplingMessage]
    usage: Usage
    cost: float | None
    name: str = ""

    @property
    def title(self) -> str:
        """The title that the user chose, or else the beginning of the user's first message."""
        return self.name or title_of(self.messages)


def title_of(messages: Iterable[SamplingMessage]) -> str:
    """Return the beginning of the user's first message; empty if there is none."""
    for message in messages:
        for block in blocks_of(message) if message.role == "user" else ():
            if isinstance(block, TextContent) and ATTACHED not in (block.meta or {}):
                text = " ".join(block.text.split())
                return text if len(text) <= TITLE else f"{text[: TITLE - 1]}…"
    return ""


def default_chats() -> Path:
    """Return the directory of conversations in the user's data directory."""
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Application Support"
    else:
        home = os.environ.get("XDG_DATA_HOME")
        base = Path(home) if home and Path(home).is_absolute() else Path.home() / ".local" / "share"
    return base / "carrel" / "chats"


class ChatFile:
    """File of one conversation. It is made with the first message. ``file`` None: nothing is saved."""

    def __init__(self, directory: Path | None, id: str, model: str, targets: Sequence[str]) -> None:
        self.id = id
        self.path = None if directory is None else directory / f"{id}{SUFFIX}"
        self._first: ChatLine | None = ChatLine(chat=id, model=model, targets=list(targets))
        if self.path is not None and self.path.exists():
            self._first = None

    def add(self, message: SamplingMessage) -> None:
        """Add a message."""
        self._write(ChatLine(message=message))

    def replace(self, messages: Iterable[SamplingMessage]) -> None:
        """Replace all messages of the conversation."""
        self._write(ChatLine(messages=list(messages)))

    def change_model(self, model: str) -> None:
        """Note another model."""
        if self._first is not None:
            self._first.model = model
        else:
            self._write(ChatLine(model=model))

    def rename(self, title: str) -> None:
        """Give the conversation a title; an empty one is replaced by the beginning of the first message."""
        if self._first is not None:
            self._first.title = title
        else:
            self._write(ChatLine(title=title))

    def count(self, usage: Usage, cost: float | None) -> None:
        """Record the total usage of the conversation."""
        if self._first is None:
            self._write(ChatLine(usage=usage, cost=cost))

    def save_media(self, data: bytes, kind: str) -> str | None:
        """Write an image or audio beside the conversation, and return the name of its file; None if it cannot be."""
        if self.path is None:
            return None
        folder = self.path.with_suffix(MEDIA)
        ending = "".join(letter for letter in kind.partition("/")[2].partition(";")[0] if letter.isalnum())[:10]
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = folder / f"{len(list(folder.iterdir())) + 1}.{ending or 'bin'}"
            with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
                out.write(data)
        except OSError:
            return None
        return str(file)

    def _write(self, line: ChatLine) -> None:
        if self.path is None:
            return
        lines = [line] if self._first is None else [self._first, line]
        now = datetime.now(UTC).isoformat(timespec="seconds")
        for one in lines:
            one.at = now
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            with os.fdopen(descriptor, "ab+") as out:
                cut_off = self._first is None and not _ends_a_line(out.fileno())
                out.write((b"\n" if cut_off else b"") + b"".join(encode(one) + b"\n" for one in lines))
        except OSError as error:
            raise ConfigError(f"the conversation cannot be saved in {self.path}: {error.strerror}") from None
        self._first = None


def _ends_a_line(descriptor: int) -> bool:
    size = os.fstat(descriptor).st_size
    if not size:
        return True
    os.lseek(descriptor, size - 1, os.SEEK_SET)
    return os.read(descriptor, 1) == b"\n"


class ChatStore:
    """Saved conversations in a directory (mode 0700)."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def new(self, model: str, targets: Sequence[str]) -> ChatFile:
        """Return a file for a new conversation; its id begins with the date."""
        date = datetime.now().strftime("%Y%m%d")
        return ChatFile(self.directory, f"{date}-{secrets.token_hex(3)}", model, targets)

    def open(self, saved: Saved) -> ChatFile:
        """Return the file of a saved conversation, to which it is added."""
        return ChatFile(self.directory, saved.id, saved.model, saved.targets)

    def list(self) -> list[Saved]:
        """Return all conversations that can be read, the last changed first."""
        found = []
        for path in self.directory.glob(f"*{SUFFIX}") if self.directory.is_dir() else ():
            try:
                found.append(self._read(path))
            except ConfigError:
                continue
        return sorted(found, key=lambda saved: (saved.changed, saved.id), reverse=True)

    def find(self, id: str = "") -> Saved:
        """Return the conversation with this id, or whose id begins so; the last conversation without an id.

        Raises:
            ConfigError: no conversation matches, several match, or the file cannot be read.
        """
        if not id:
            listed = self.list()
            if not listed:
                raise ConfigError(f"there is no saved conversation in {self.directory}")
            return listed[0]
        ids = sorted(path.stem for path in self.directory.glob(f"*{SUFFIX}"))
        matching = [id] if id in ids else [one for one in ids if one.startswith(id) or one.endswith(f"-{id}")]
        if len(matching) != 1:
            hint = f": {', '.join(matching[:5])}" if matching else did_you_mean(id, ids) or " (--list shows all)"
            what = "several conversations begin with" if matching else "there is no conversation"
            raise ConfigError(f"{what} {id!r}{hint}")
        return self._read(self.directory / f"{matching[0]}{SUFFIX}")

    def delete(self, saved: Saved) -> None:
        """Delete a conversation, with its images and audio.

        Raises:
            ConfigError: the file cannot be deleted.
        """
        path = self.directory / f"{saved.id}{SUFFIX}"
        try:
            path.unlink(missing_ok=True)
            shutil.rmtree(path.with_suffix(MEDIA), ignore_errors=True)
        except OSError as error:
            raise ConfigError(f"{path} cannot be deleted: {error.strerror}") from None

    @staticmethod
    def _read(path: Path) -> Saved:
        decoder = msgspec.json.Decoder(ChatLine, dec_hook=read_contents)
        saved = Saved(id=path.stem, began="", changed="", model="", targets=[], messages=[], usage=Usage(), cost=None)
        try:
            raw = path.read_bytes()
        except OSError as error:
            raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
        for text in raw.splitlines():
            try:
                line = decoder.decode(text)
            except msgspec.DecodeError:
                continue  # cut off by a crash
            _apply(saved, line)
        if not saved.messages:
            raise ConfigError(f"{path} has no conversation in it")
        return saved


def _apply(saved: Saved, line: ChatLine) -> None:
    saved.began = saved.began or line.at
    saved.changed = line.at or saved.changed
    saved.model = line.model or saved.model
    saved.name = saved.name if line.title is None else line.title
    saved.targets = saved.targets if line.targets is None else line.targets
    if line.messages is not None:
        saved.messages = line.messages
    elif line.message is not None:
        saved.messages.append(line.message)
    if line.usage is not None:
        saved.usage, saved.cost = line.usage, line.cost
