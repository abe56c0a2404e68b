"""``carrel context``: packs what folders, sources and servers say about a question into a budget of tokens."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from carrel.cli.chat.host_targets import read_host_targets
from carrel.cli.client.connection import SERVER_ERROR, UNREACHABLE, answered, failed, shown
from carrel.cli.options import Parser, add_header_option
from carrel.cli.source_targets import add_targets, open_source, parse_with_targets, split_targets
from carrel.cli.terminal.messages import print_stderr
from carrel.cli.terminal.output import write_json, write_text
from carrel.cli.terminal.progress import Bar
from carrel.cli.values import number, positive
from carrel.context.options import BUDGET, MODEL_TOKENS
from carrel.context.results import NEAREST, unused
from carrel.errors import ConfigError

if TYPE_CHECKING:
    from carrel.catalog.provider import Provider
    from carrel.context.options import Ask
    from carrel.context.pack import ContextPack
    from carrel.host.host import Host

__all__ = ["parser", "run"]

SUMMARY = "Pack what folders, sources and servers say about a question into a budget of tokens, with reasons."
EXAMPLES = """\
examples:
  carrel context ./notes 'how is green tea brewed?'
  carrel context ./src git:. mcp.json 'where are tokens refreshed?' --budget 4000
  carrel context http://127.0.0.1:8000/mcp 'who approves invoices?' --format json
  carrel context ./docs 'how to deploy' --pin docs/deployment.md --without '*.log'
"""
TIMEOUT = 60.0
#: Characters of a pattern, which need not match anything.
PATTERN = frozenset("*?[")


def parser() -> Parser:
    """Return the argument parser of ``carrel context``."""
    reader = Parser("context", SUMMARY, epilog=EXAMPLES)
    add_targets(reader)
    reader.add_argument("question", metavar="QUESTION", help="the question, in any language; the last argument")
    reader.add_argument(
        "--budget", metavar="TOKENS", type=positive, default=BUDGET, help=f"tokens at most (default: {BUDGET})"
    )
    reader.add_argument(
        "--format", choices=("markdown", "xml", "json"), default="markdown", help="the format (default: markdown)"
    )
    reader.add_argument(
        "--pin", metavar="URI", action="append", default=[], help="put this resource or file first; may be repeated"
    )
    reader.add_argument(
        "--open",
        metavar="URI",
        action="append",
        default=[],
        help="rank this resource or file, which you have open, higher; may be repeated",
    )
    reader.add_argument(
        "--without",
        metavar="URI",
        action="append",
        default=[],
        help="leave out this resource or file, or all that match a pattern such as '*.log'; may be repeated",
    )
    reader.add_argument(
        "--model",
        metavar="MODEL",
        help="let this model, as carrel chat --model takes it, add search words and rank what is found",
    )
    reader.add_argument(
        "--model-tokens",
        metavar="TOKENS",
        type=positive,
        default=MODEL_TOKENS,
        help=f"tokens that the model may read and write (default: {MODEL_TOKENS})",
    )
    reader.add_argument("--watch", action="store_true", help="pack again whenever resources change; Ctrl-C ends")
    reader.add_argument(
        "--tokenizer",
        metavar="MODEL",
        help="count tokens as this model does, with the package tiktoken (default: estimate them)",
    )
    add_header_option(reader)
    reader.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=number,
        default=TIMEOUT,
        help=f"the time limit for connecting and for indexing (default: {TIMEOUT:g})",
    )
    reader.add_argument("--quiet", action="store_true", help="show no progress, and no summary on standard error")
    return reader


def run(arguments: list[str]) -> int:
    """Run ``carrel context`` and return the exit code: 0, 1 if nothing is packed, 3 without a connection.

    Raises:
        ConfigError: the arguments are invalid.
    """
    options = read_options(arguments)
    sources, others = split_targets(options)
    opened = [open_source(source) for source in sources]

    async def show() -> int:
        with Bar(wanted=not options.quiet and options.format != "json") as bar:
            bar.update("connecting" if others else "indexing")
            async with opened_model(options.model) as model, connected(opened, others, options) as host:
                unavailable = [server for server in host.servers.values() if server.state != "ready"]
                for server in unavailable:
                    failed(f"{server.name} is not available: {server.reason or server.state}", UNREACHABLE)
                if unavailable and not any(server.state == "ready" for server in host.servers.values()) and not opened:
                    return UNREACHABLE
                for problem in host.problems:
                    failed(str(problem), SERVER_ERROR)
                bar.update("indexing")
                pack = await host.context(
                    options.question,
                    wait=options.timeout,
                    budget=options.budget,
                    pin=[uri_of(each) for each in options.pin],
                    open=[uri_of(each) for each in options.open],
                    without=[uri_of(each) for each in options.without],
                    format=options.format,
                    tokenizer=options.tokenizer,
                    model=model,
                    model_tokens=options.model_tokens,
                )
                bar.stop()
                code = report(pack, options)
                if options.watch:
                    await follow(pack, options)
                return code

    return answered(show, quiet=options.quiet)


def read_options(arguments: list[str]) -> argparse.Namespace:
    """Parse the arguments. The words after ``--`` are the command of an additional server.

    Raises:
        ConfigError: wrong use.
    """
    options = parse_with_targets(parser(), arguments)
    if not options.question.strip():
        raise ConfigError("QUESTION is empty")
    if Path(options.question).exists():
        raise ConfigError(f"the last argument is the question, and {options.question} is a path: add the question")
    if not options.timeout > 0:
        raise ConfigError(f"--timeout {options.timeout:g}: give a number of seconds above 0")
    return options


@asynccontextmanager
async def connected(
    opened: Sequence[Provider], others: Sequence[str], options: argparse.Namespace
) -> AsyncIterator[Host]:
    """Open a host of all targets, and close it at the end.

    Raises:
        ConfigError: a target is not valid, or a source cannot be started.
    """
    from carrel.host.host import Host

    found = read_host_targets(others, options.header)
    async with Host(found.servers, files=found.files, start_timeout=options.timeout, timeout=options.timeout) as host:
        added: list[str] = []
        try:
            for provider in opened:
                await host.catalog.add(provider)
                added.append(provider.name)
            yield host
            await host.close()
        finally:
            await asyncio.gather(*(host.catalog.remove(name) for name in added))


async def follow(pack: ContextPack, options: argparse.Namespace) -> None:
    """Print the pack again whenever it changes, and its changes on standard error."""
    if not options.quiet:
        print_stderr("waiting for changes; Ctrl-C ends")
    async for changes in pack.watch():
        kinds = {"added": changes.added, "removed": changes.removed, "changed": changes.changed}
        for kind, items in kinds.items():
            for item in items if not options.quiet else ():
                print_stderr(f"{kind}: {shown(item.uri)}")
        report(pack, options)


@asynccontextmanager
async def opened_model(name: str | None) -> AsyncIterator[Ask | None]:
    """Open a model, and close it at the end. Without a name, there is none.

    Raises:
        ConfigError: there is no such model, its package is not installed, or there is no key.
        TransportError: the server of the model cannot be reached to list its models.
    """
    if name is None:
        yield None
        return
    from carrel.chat.models.open import open_model
    from carrel.chat.sampling import question_asker

    model = await open_model(name)
    try:
        yield question_asker(model)
    finally:
        await model.close()


def uri_of(text: str) -> str:
    """Return the URI of a file that is given by its path; other texts are URIs or patterns."""
    path = Path(text).expanduser()
    return path.resolve().as_uri() if "://" not in text and path.exists() else text


def nothing_packed(pack: ContextPack, budget: int) -> str:
    """Return why a pack has no items."""
    if any(each.reason == "over the budget" for each in pack.left_out):
        return f"--budget {budget} is too small for what was found"
    nearest = [shown(each.uri) for each in pack.left_out if each.reason == NEAREST]
    return f"nothing relevant is found; the nearest: {', '.join(nearest)}" if nearest else "nothing is found"


def report(pack: ContextPack, options: argparse.Namespace) -> int:
    """Print a pack, or why there is none, and return the exit code."""
    for each in unused(pack.left_out):
        option = "--pin" if each.reason.startswith("pinned") else "--without"
        failed(f"{option} {each.uri}: {each.reason.partition(', but ')[2]}", SERVER_ERROR)
    if options.format == "json":
        write_json(pack.as_json())
    elif pack.items:
        write_text(pack.text)
    if not pack.packed.complete:
        names = ", ".join(map(shown, pack.packed.unread))
        failed(f"not everything was searched{f' of {names}' * bool(names)}: see --timeout", SERVER_ERROR)
    if not pack.items:
        return failed(nothing_packed(pack, options.budget), SERVER_ERROR)
    if not options.quiet and options.format != "json":
        how = "estimated" if pack.packed.tokenizer == "estimate" else pack.packed.tokenizer
        left_out = "1 resource" if len(pack.left_out) == 1 else f"{len(pack.left_out)} resources"
        print_stderr(f"{pack.tokens:,} of {options.budget:,} tokens ({how}), {left_out} left out")
    given = {uri_of(each) for each in (*options.pin, *options.without) if not set(each) & PATTERN}
    return SERVER_ERROR if any(each.uri in given for each in unused(pack.left_out)) else 0
