"""E-mails and mailboxes (mbox). A page of a mailbox is a message. Attachments are named, and not opened."""

from __future__ import annotations

import re
from collections.abc import Iterator
from email import message_from_bytes
from email.header import decode_header, make_header
from email.message import Message

from carrel.sources.content.text import decode
from carrel.sources.documents.formats.document import DocumentFailed, OpenDocument, cell, sectioned
from carrel.sources.documents.formats.html import markdown_of

__all__ = ["open_document"]

HEADERS = ("From", "To", "Cc", "Date", "Reply-To")
#: Parts of a message, and parts within parts, that are looked at.
MAX_PARTS, MAX_DEPTH = 1000, 30
#: Characters of a header.
MAX_HEADER = 10_000
_FROM = re.compile(rb"(?:\A|\n)(From [^\r\n]{0,1000}\r?\n)")
_QUOTED_FROM = re.compile(rb"^>(>*From )", re.MULTILINE)


def open_document(data: bytes, format: str, *, locations: bool) -> OpenDocument:
    """Open a message or a mailbox.

    Raises:
        DocumentFailed: the data is not a message or a mailbox.
    """
    if format == "eml":
        return sectioned(text_of(data, "# "))
    starts = [found.start(1) for found in _FROM.finditer(data)]
    if not starts:
        raise DocumentFailed("damaged")
    ends = [*starts[1:], len(data)]

    def page(number: int) -> str:
        message = data[starts[number - 1] : ends[number - 1]].split(b"\n", 1)[-1]
        return text_of(_QUOTED_FROM.sub(rb"\1", message), "## ")

    return OpenDocument(len(starts), page)


def text_of(data: bytes, heading: str) -> str:
    """Return a message as Markdown: subject, some headers, text, and the names of attachments.

    Raises:
        DocumentFailed: the data is not a message.
    """
    message = message_from_bytes(data)
    headers = [(name, header(message, name)) for name in HEADERS]
    subject = header(message, "Subject")
    if not subject and not any(value for _, value in headers):
        raise DocumentFailed("damaged")
    lines = [f"{heading}{cell(subject) or '(no subject)'}", ""]
    lines += [f"- {name}: {value}" for name, value in headers if value]
    texts, attached = contents_of(message)
    lines += ["", *texts]
    if attached:
        lines += ["", "Attachments:", "", *(f"- {one}" for one in attached)]
    return "\n".join(lines) + "\n"


def header(message: Message, name: str) -> str:
    """Return a header in one line."""
    return unfolded(message.get(name, ""))


def unfolded(value: object) -> str:
    """Return a value of a header, decoded, in one line."""
    text = str(value)[:MAX_HEADER]
    try:
        text = str(make_header(decode_header(text)))
    except (ValueError, LookupError):  # not valid, so it is shown as it is
        pass
    return " ".join(text.split())


def contents_of(message: Message) -> tuple[list[str], list[str]]:
    """Return the texts of a message, and its attachments."""
    texts, attached = list[str](), list[str]()
    for part in parts_of(message):
        kind = part.get_content_type()
        try:
            name, disposition = unfolded(part.get_filename("")), part.get_content_disposition()
        except (ValueError, LookupError):
            name, disposition = None, None
        if disposition == "attachment" or name or not kind.startswith("text/"):
            size = len(part.get_payload(decode=True) or b"")
            attached.append(f"{cell(name or '(no name)')} ({kind}, {size:,} bytes)")
        else:
            text = decoded(part)
            texts.append((markdown_of(text) if kind == "text/html" else text).strip() + "\n")
    return texts, attached


def parts_of(message: Message) -> Iterator[Message]:
    """Yield the parts to show: of alternatives, plain text, or else the last one."""
    waiting = [(message, 0)]
    for _ in range(MAX_PARTS):
        if not waiting:
            return
        part, depth = waiting.pop()
        if not part.is_multipart():
            yield part
            continue
        inner = [one for one in part.get_payload() if isinstance(one, Message)]
        if part.get_content_type() == "multipart/alternative" and inner:
            plain = [one for one in inner if one.get_content_type() == "text/plain"]
            inner = plain[:1] or inner[-1:]
        if depth < MAX_DEPTH:
            waiting += [(one, depth + 1) for one in reversed(inner)]


def decoded(part: Message) -> str:
    """Return the text of a part, even if its charset is unknown or wrong."""
    data = part.get_payload(decode=True)
    if not isinstance(data, bytes):
        return ""
    charset = part.get_content_charset("us-ascii")
    if charset != "us-ascii" or data.isascii():  # else the message has letters that it does not declare
        try:
            return data.decode(charset, "replace")
        except (LookupError, ValueError):
            pass
    found = decode(data)
    return data.decode("utf-8", "replace") if found is None else found.text
