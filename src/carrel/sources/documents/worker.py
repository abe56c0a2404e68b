"""Process that reads documents, with limits of memory and time set by the system where it has them.

It reads questions from standard input and writes answers to standard output. It ends with its input, when it has
nothing to do for a while, or when a document has left it with too much memory.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

import msgspec

from carrel.sources.documents.formats.document import Document, Failed
from carrel.sources.documents.messages import Answer, Question, receive, send

__all__ = ["answer", "main"]

#: Memory (bytes) after which it ends, because parsers do not give it back.
RECYCLED = 384 * 1024 * 1024
MARK = "<!-- {} {} -->\n\n"
NO_TEXT = "(There is no text here. It may be a picture of text, such as a scanned page.)\n"


class State:
    """Document of the question before."""

    key: str | None = None
    document: Document | None = None


def main(memory: int, seconds: int, idle: float) -> None:
    """Answer questions until there are no more, or none for ``idle`` seconds.

    ``memory`` (bytes), and ``seconds`` of CPU for a question, are limits.
    """
    source = os.fdopen(0, "rb")
    target = os.fdopen(os.dup(1), "wb")
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)  # what a library prints is no answer
    limit_memory(memory)
    state = State()
    while wait_for(source.fileno(), idle) and (data := receive(source)) is not None:
        limit_time(seconds)
        found = answer(msgspec.msgpack.decode(data, type=Question), state)
        del data
        found.last = memory_used() > RECYCLED
        send(target, found)
        if found.last:
            break


def answer(question: Question, state: State) -> Answer:
    """Return the text that a question asks for, or why there is none."""
    try:
        if question.data is not None:
            state.key = state.document = None
            module = import_module(f"carrel.sources.documents.formats.{question.module}")
            state.document = module.open_document(question.data, question.format, locations=question.locations)
            state.key = question.key
        document = state.document
        if document is None or state.key != question.key:
            return Answer(failure="missing")
        return text_of(document, question)
    except Failed as error:
        return Answer(failure=error.failure, detail=error.detail)
    except MemoryError:
        state.key = state.document = None
        return Answer(failure="memory")
    except BaseException as error:  # parsers in Rust panic, which is no Exception
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        return Answer(failure="damaged")


def text_of(document: Document, question: Question) -> Answer:
    """Return a page, or all pages, of an open document."""
    if question.page > document.pages:
        return Answer(failure="no_page", pages=document.pages)
    limit = question.limit
    if question.page:
        text = document.page(question.page)
        complete = len(text) <= limit
    else:
        parts: list[str] = []
        size = number = 0
        while number < document.pages and size <= limit:
            number += 1
            part = document.page(number)
            if question.unit != "section" and document.pages > 1:
                part = MARK.format(question.unit, number) + part.rstrip("\n") + "\n\n"
            parts.append(part)
            size += len(part)
        text = "".join(parts)
        complete = size <= limit and number == document.pages
    text = clean(text[:limit])
    return Answer(text if text.strip() else NO_TEXT, document.pages, complete, document.facts)


def clean(text: str) -> str:
    """Return a text that can be encoded."""
    return text.encode("utf-8", "replace").decode().replace("\0", "")


def wait_for(descriptor: int, seconds: float) -> bool:
    """Wait for a question; False if there is none for a while."""
    if sys.platform == "win32":
        return True
    import select

    return bool(select.select([descriptor], [], [], seconds)[0])


def limit_memory(memory: int) -> None:
    """Limit memory and files, so that a document that exceeds them ends this process only."""
    if sys.platform == "win32":
        return
    import resource

    limits = ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, 0))
    for what, limit in limits:
        try:
            resource.setrlimit(what, (limit, limit))
        except (OSError, ValueError):  # macOS has no limit of address space
            pass


def limit_time(seconds: int) -> None:
    """Limit the CPU time of the next question: also if the server that would end this process is gone."""
    if sys.platform == "win32":
        return
    import resource

    usage = resource.getrusage(resource.RUSAGE_SELF)
    most = int(usage.ru_utime + usage.ru_stime) + seconds + 2
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def memory_used() -> int:
    """Return the memory that this process has, in bytes; 0 where the system does not show it (all but Linux)."""
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
