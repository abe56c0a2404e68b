"""Mails of a mailbox file (mbox) as resources, for ``carrel serve mbox:PATH``.

The file is read again when its size or its modification time has changed. It is never written.
"""

from __future__ import annotations

import asyncio
import hashlib
import mailbox
import os
from collections.abc import AsyncIterator, Collection
from datetime import UTC
from email.header import decode_header, make_header
from email.message import Message
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from carrel.errors import ConfigError, InvalidCursor, ResourceNotFound, ResourceTooLarge
from carrel.sources import Change, Events, Hit, Interest, Page, Provider, Request, Size, file_uri
from carrel.types import Annotations, ReadResourceResult, Resource, TextResourceContents

__all__ = ["MailboxOptions", "MailboxSource"]

HEADERS = ("From", "To", "Cc", "Date", "Subject")


class MailboxOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of a mailbox."""

    max_mail: Annotated[Size, Meta(description="the largest mail that is read")] = 1024 * 1024
    poll: Annotated[float, Meta(gt=0, description="seconds between looks at the file for new mail")] = 1.0


class Mail(msgspec.Struct, frozen=True):
    """A mail in the file: its position and its description. Search looks through ``words``."""

    key: int
    resource: Resource
    words: str


class MailboxSource(Provider):
    """Provider of the mails in one mailbox file, given as ``mbox:PATH``."""

    options = MailboxOptions
    changes = "here"

    def __init__(self, target: str, options: MailboxOptions) -> None:
        self.path = Path(target.removeprefix("mbox:")).expanduser().absolute()
        self.name = "mbox:" + file_uri(self.path).removeprefix("file://")
        self.prefixes = (self.name,)
        self._options = options
        self._mails: dict[str, Mail] = {}
        self._stamp: tuple[int, int] | None = None
        self._lock = asyncio.Lock()
        self._stopping = asyncio.Event()

    @staticmethod
    def relative(target: str, folder: str) -> str:
        """Return the URL with an absolute path. Paths in carrel.toml are relative to the file."""
        return f"mbox:{Path(folder, Path(target.removeprefix('mbox:')).expanduser()).absolute()}"

    async def start(self, events: Events) -> None:
        self._stopping.clear()
        if not await asyncio.to_thread(self.path.is_file):
            raise ConfigError(f"There is no mailbox {self.path}")
        await self._look()

    async def stop(self) -> None:
        self._stopping.set()

    async def _look(self) -> dict[str, Mail]:
        """Return the mails by URI. Read the file again if it has changed."""
        async with self._lock:
            info = await asyncio.to_thread(os.stat, self.path)
            stamp = info.st_mtime_ns, info.st_size
            if stamp != self._stamp:
                self._mails, self._stamp = await asyncio.to_thread(self._scan), stamp
            return self._mails

    def _scan(self) -> dict[str, Mail]:
        found: dict[str, Mail] = {}
        box = mailbox.mbox(self.path, create=False)
        try:
            for key in box.iterkeys():
                message = box.get_message(key)
                identity = message["Message-ID"] or message.as_bytes()
                data = identity if isinstance(identity, bytes) else str(identity).encode("utf-8", "replace")
                uri = f"{self.name}/{hashlib.sha256(data).hexdigest()[:16]}"
                subject, sender = text_of(message["Subject"]), text_of(message["From"])
                resource = Resource(
                    uri, subject or "(no subject)", description=f"From {sender}", mime_type="text/plain"
                )
                resource.annotations = dated(message)
                found.setdefault(uri, Mail(key, resource, f"{subject} {sender}".casefold()))
        finally:
            box.close()
        return dict(sorted(found.items()))

    # Resources, sorted by URI; the cursor is the last URI

    async def list_resources(self, request: Request) -> Page[Resource]:
        mails = await self._look()
        uris = list(mails)
        if request.cursor is not None:
            if not request.cursor.startswith(f"{self.name}/") or len(request.cursor) != len(self.name) + 17:
                raise InvalidCursor
            uris = [uri for uri in uris if uri > request.cursor]
        page = uris[: request.limit]
        return Page([mails[uri].resource for uri in page], page[-1] if len(uris) > len(page) else None)

    async def read_resource(self, uri: str, request: Request) -> ReadResourceResult:
        mail = (await self._look()).get(uri)
        if mail is None:
            raise ResourceNotFound(uri)
        return ReadResourceResult(contents=[await asyncio.to_thread(self._read, uri, mail)])

    def _read(self, uri: str, mail: Mail) -> TextResourceContents:
        box = mailbox.mbox(self.path, create=False)
        try:
            data = box.get_bytes(mail.key)
            if len(data) > self._options.max_mail:
                limit = self._options.max_mail
                raise ResourceTooLarge(uri, f"The mail has {len(data):,} bytes, which is over the limit of {limit:,}")
            message = box.get_message(mail.key)
        except KeyError:
            raise ResourceNotFound(uri) from None
        finally:
            box.close()
        head = "".join(f"{name}: {text_of(message[name])}\n" for name in HEADERS if message[name])
        return TextResourceContents(uri, f"{head}\n{body_of(message)}", mime_type="text/plain")

    async def search(self, query: str, request: Request) -> Page[Hit]:
        words = query.casefold().split()
        mails = [mail for mail in (await self._look()).values() if words and all(word in mail.words for word in words)]
        mails.sort(key=lambda mail: not mail.resource.name.casefold().startswith(words[0]))
        return Page([Hit(mail.resource, 0.9 if at == 0 else 0.5) for at, mail in enumerate(mails[: request.limit])])

    # Changes: other programs write the file. Polling the modification time of a single file is sufficient

    async def watch(self, interest: Interest) -> AsyncIterator[Collection[Change]]:
        before = set(await self._look())
        yield ()
        while not self._stopping.is_set():
            try:
                async with asyncio.timeout(self._options.poll):
                    await self._stopping.wait()
            except TimeoutError:
                now = set(await self._look())
                changes = [Change("removed", uri) for uri in before - now]
                changes += [Change("created", uri) for uri in now - before]
                before = now
                if changes:
                    yield changes


def text_of(header: object) -> str:
    """Return a header as one line of text."""
    try:
        return " ".join(str(make_header(decode_header(str(header or "")))).split())
    except (LookupError, ValueError):
        return " ".join(str(header).split())


def dated(message: Message) -> Annotations | None:
    """Return the date of a mail as an annotation, or None."""
    try:
        moment = parsedate_to_datetime(str(message["Date"]))
    except ValueError:
        return None
    if moment.tzinfo is None:  # -0000: unknown time zone
        moment = moment.replace(tzinfo=UTC)
    return Annotations(last_modified=moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))


def body_of(message: Message) -> str:
    """Return the first part of a mail that is plain text."""
    for part in message.walk():
        data = part.get_payload(decode=True)
        if part.get_content_type() == "text/plain" and isinstance(data, bytes):
            try:
                return data.decode(part.get_content_charset() or "utf-8", "replace")
            except LookupError:  # an encoding that does not exist
                return data.decode("latin-1")
    return "(no plain text)\n"
