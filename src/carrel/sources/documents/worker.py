"""Worker process that reads documents, with memory and time limits if the system supports them.

It reads requests from standard input and writes responses to standard output. It ends with its input, when it has
nothing to do for a while, or when a document has left it with too much memory.
"""

from __future__ import annotations

from importlib import import_module

import msgspec

from carrel.sources.documents.formats.document import DocumentFailed, OpenDocument
from carrel.sources.documents.messages import WorkerRequest, WorkerResponse
from carrel.sources.process import RECYCLED, limit_memory, limit_time, memory_used, open_pipes, receive, send, wait_for

__all__ = ["answer", "main"]

MARK = "<!-- {} {} -->\n\n"
NO_TEXT = "(There is no text here. It may be a picture of text, such as a scanned page.)\n"


class WorkerState:
    """Document of the previous request."""

    key: str | None = None
    document: OpenDocument | None = None


def main(memory: int, seconds: int, idle: float) -> None:
    """Handle requests until the server closes the pipe, or no request arrives for ``idle`` seconds.

    ``memory`` (bytes), and ``seconds`` of CPU for a request, are limits.
    """
    source, target = open_pipes()
    limit_memory(memory)
    state = WorkerState()
    while wait_for(source.fileno(), idle) and (data := receive(source)) is not None:
        limit_time(seconds)
        found = answer(msgspec.msgpack.decode(data, type=WorkerRequest), state)
        del data
        found.last = memory_used() > RECYCLED
        send(target, msgspec.msgpack.encode(found))
        if found.last:
            break


def answer(message: WorkerRequest, state: WorkerState) -> WorkerResponse:
    """Return the requested text, or the reason why the document has no text."""
    try:
        if message.data is not None:
            state.key = state.document = None
            module = import_module(f"carrel.sources.documents.formats.{message.module}")
            state.document = module.open_document(message.data, message.format, locations=message.locations)
            state.key = message.key
        document = state.document
        if document is None or state.key != message.key:
            return WorkerResponse(failure="missing")
        return text_of(document, message)
    except DocumentFailed as error:
        return WorkerResponse(failure=error.failure, detail=error.detail)
    except MemoryError:
        state.key = state.document = None
        return WorkerResponse(failure="memory")
    except BaseException as error:  # parsers in Rust panic, which is no Exception
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        return WorkerResponse(failure="damaged")


def text_of(document: OpenDocument, message: WorkerRequest) -> WorkerResponse:
    """Return a page, or all pages, of an open document."""
    if message.page > document.pages:
        return WorkerResponse(failure="no_page", pages=document.pages)
    limit = message.limit
    if message.page:
        text = document.page(message.page)
        complete = len(text) <= limit
    else:
        parts: list[str] = []
        size = number = 0
        while number < document.pages and size <= limit:
            number += 1
            part = document.page(number)
            if message.unit != "section" and document.pages > 1:
                part = MARK.format(message.unit, number) + part.rstrip("\n") + "\n\n"
            parts.append(part)
            size += len(part)
        text = "".join(parts)
        complete = size <= limit and number == document.pages
    text = clean(text[:limit])
    return WorkerResponse(text if text.strip() else NO_TEXT, document.pages, complete, document.facts)


def clean(text: str) -> str:
    """Return a text that can be encoded."""
    return text.encode("utf-8", "replace").decode().replace("\0", "")
