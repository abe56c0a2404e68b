"""``carrel serve``: serves folders, files and skills, on stdio or over HTTP."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from carrel.awaitables import resolved
from carrel.cli.config.read import Configuration, read_configuration
from carrel.cli.options import (
    Parser,
    add_config_option,
    add_limit_option,
    add_sharing_options,
    add_source_flags,
    as_arguments,
    sources_of,
)
from carrel.cli.server.access import add_policy
from carrel.cli.server.http_options import (
    SSE_PATH,
    add_http_options,
    add_workers_option,
    reachable_url,
    read_http_options,
    warn,
    warn_of_terminal,
)
from carrel.cli.server.limit_rules import add_limits
from carrel.cli.server.logs import add_log_options, configure
from carrel.cli.server.operations import add_operations
from carrel.cli.server.shared_state import add_state
from carrel.cli.server.sharing import Targets, default_name, read_targets, share
from carrel.cli.server.workers import start_workers
from carrel.cli.terminal.messages import print_stderr
from carrel.errors import ConfigError, MCPError

if TYPE_CHECKING:
    from carrel.catalog.provider import Provider
    from carrel.cli.server.worker import WorkerProcess
    from carrel.search.indexer import Progress
    from carrel.server.app import Server
    from carrel.sources.registry import Source
    from carrel.transports.server.options import ServeOptions

__all__ = ["parser", "run"]

USAGE = "%(prog)s [OPTION ...] [TARGET ...]"
SUMMARY = (
    "Share folders, documents, git repositories, databases, logs, web pages, APIs, object stores, archives, the "
    "screen and skills with AI applications, as live resources."
)
EXAMPLES = """\
examples:
  carrel serve ./notes                          on stdio, for an application that starts it
  carrel serve ./notes --http 8000              over HTTP, on this machine only
  carrel serve ./docs ./src --exclude '*.min.js' --name project
  carrel serve ./docs git:. sqlite:///shop.db --search
                                                several sources, with full-text search over all of them
  carrel serve --skills ./skills                skills for agents: directories with a SKILL.md
"""
SAMPLE = 200
#: Seconds of indexing before its progress is printed.
SHORT = 2.0


def parser(others: Iterable[Source] = ()) -> Parser:
    """Return the argument parser of ``carrel serve``, with the flags of Carrel's own sources and of ``others``."""
    reader = Parser("serve", SUMMARY, usage=USAGE, epilog=EXAMPLES)
    reader.add_argument(
        "targets",
        metavar="TARGET",
        nargs="*",
        help="what to share: a folder, a file, or a URL; the kinds of URLs, and their options, are below",
    )
    add_config_option(reader)
    add_sharing_options(reader)
    add_http_options(reader)
    add_workers_option(reader)
    reader.add_argument(
        "--studio",
        action="store_true",
        help="with --http: also serve a page that shows what is shared (see carrel studio), and print its link first",
    )
    reader.add_argument("--open", action="store_true", help="as --studio, and open the page in the browser")
    add_limit_option(reader)
    add_log_options(reader)
    add_source_flags(reader, others)
    return reader


def run(arguments: list[str]) -> int:
    """Run ``carrel serve`` until the client disconnects (stdio) or Ctrl-C (HTTP).

    Raises:
        ConfigError: invalid arguments, a path that cannot be shared, a port in use, or a missing package.
    """
    reader = parser(sources_of(arguments))
    options = reader.parse_intermixed_args(arguments)
    configuration = read_configuration(options, targeted=bool(options.targets or options.skills))
    configure(configuration.settings.logging.format, configuration.settings.logging.level)
    app_file = configuration.settings.app.file
    if app_file is not None:
        raise ConfigError(f"{configuration.where('app')}: [app] is for carrel run, which serves Python code")
    http = read_http_options(configuration)
    if options.studio or options.open:
        if http is None:
            raise ConfigError("--studio and --open need --http; to look at sources without it, use carrel studio")
        from carrel.cli.server.studio import check_installed

        check_installed()
        if configuration.settings.http.workers != 1:
            raise ConfigError("--studio and --open are for one process; use carrel studio beside several workers")
    targets = read_targets(options, reader.flags, configuration)
    if not targets:
        raise ConfigError(
            "nothing to share: name a path, a URL, --skills FOLDER, or a carrel.toml (see carrel serve --help)"
        )
    targets.flags = as_arguments(options, [], reader.flags, hide=True)
    for path in targets.locations("file", "skills"):
        if is_empty(path):
            warn(f"{path} is empty")
    outcome = start_workers(configuration)
    if isinstance(outcome, int):
        return outcome
    configuration.worker = outcome
    app = create(targets, configuration)
    add_operations(app, configuration)
    add_limits(app, configuration, http)
    add_policy(app, configuration, http)
    add_state(app, configuration)
    providers = share(app, targets)
    add_search(app, targets, configuration)
    if http is None:
        from carrel.transports.server import stdio

        warn_of_terminal()
        stdio.run(app)
    else:
        welcome = partial(prepare_welcome, app, providers, targets, http, configuration)
        studio = options.studio or options.open
        serve_http(app, http, welcome, worker=configuration.worker, studio=studio, open=options.open)
    return 0


def is_empty(path: str) -> bool:
    try:
        with os.scandir(path) as entries:
            return next(entries, None) is None
    except NotADirectoryError:
        return False


def create(targets: Targets, configuration: Configuration) -> Server:
    """Create the server for the targets, without adding the targets."""
    from carrel import Server, __version__

    given = configuration.given("server")
    given.pop("tools", None)
    name = given.pop("name", None) or default_name([*targets.shared, *targets.skills])
    version = given.pop("version", None) or __version__
    app = Server(name, version, limits=configuration.settings.limits, mask_errors=True, **given)
    app.skills()  # even without skills, so that clients can list directories
    search = configuration.settings.search
    if configuration.settings.server.tools:
        app.add_resource_tools(search=not search.enabled)
    return app


def add_search(app: Server, targets: Targets, configuration: Configuration, *, index: bool = True) -> None:
    """Add search over all shared targets, if enabled. Each set of targets and options has its own index.

    Without ``index``, the server has the tools of the search, and neither reads nor writes an index.

    Raises:
        ConfigError: tantivy is not installed.
    """
    search = configuration.settings.search
    if not search.enabled:
        return
    from msgspec import json

    from carrel.search.options import SearchOptions

    options = SearchOptions(**{name: getattr(search, name) for name in SearchOptions.__struct_fields__})
    shared = sorted([target.scheme, target.location, json.encode(target.options).decode()] for target in targets)
    key = json.encode([shared, options.contents]).decode()
    app.add_search(options, key=key, progress=print_progress).enabled = index


def print_progress(progress: Progress) -> None:
    """Print the progress of the search index on standard error if indexing is slow."""
    if progress.done and progress.seconds < SHORT:
        return
    if progress.waiting is not None:
        print_stderr(f"carrel: search: {progress.waiting:,} passages wait for their embeddings")
        return
    state = "ready" if progress.done else "so far"
    size = f"{progress.bytes / 1e6:,.0f} MB in {progress.seconds:,.0f} s"
    print_stderr(f"carrel: search: {progress.resources:,} resources {state}, {size}")


def serve_http(
    app: Server,
    http: ServeOptions,
    welcome: Callable[[str], Coroutine[Any, Any, None]],
    *,
    worker: WorkerProcess | None,
    studio: bool,
    open: bool,
) -> None:
    """Serve HTTP until the process is stopped; print the startup message after the server has started listening.

    ``welcome`` is called with the URL, and prints it. With ``studio``, a page is served too, whose link comes first.
    """
    import asyncio

    tasks: list[asyncio.Task[None]] = []

    def greet(url: str) -> None:
        def print_welcome() -> None:
            tasks.append(asyncio.ensure_future(welcome(reachable_url(url))))

        if studio:
            from carrel.cli.server.studio import serve_beside

            tasks.append(asyncio.ensure_future(serve_beside(app, print_welcome, open=open)))
        else:
            print_welcome()

    http["on_started"] = greet
    if worker is not None:
        worker.attach(http)
    app.run("http", **http)


async def prepare_welcome(
    app: Server,
    providers: list[Provider],
    targets: Targets,
    http: ServeOptions,
    configuration: Configuration,
    url: str,
) -> None:
    """Print the startup message for a URL."""
    path = "/" + http["path"].strip("/")
    old = f"{url.removesuffix(path)}{SSE_PATH}" if configuration.settings.http.sse else None
    auth = configuration.settings.auth
    tokens = auth.tokens or (" ".join([auth.issuer] if isinstance(auth.issuer, str) else auth.issuer or ()) or None)
    await say_welcome(app, providers, url, targets, old, tokens)


async def say_welcome(
    app: Server, providers: list[Provider], url: str, targets: Targets, old: str | None, tokens: str | None
) -> None:
    """Print the startup message. Its example is a resource that callers without a role may read."""
    from carrel.catalog.access import find_view, visible_to
    from carrel.catalog.provider import Request
    from carrel.cli.server.welcome import choose, first_read, welcome

    example, view = None, find_view(app.gate, None)
    for provider in providers:
        try:
            request = Request(limit=SAMPLE, visible=visible_to(view), view=view)
            found = await resolved(provider.list_resources(request))
        except MCPError:
            continue
        example = example or choose([each for each in found.items if request.allows("list", each.uri)])
    policy = view is not None and view.hides
    reading = first_read(url, example, token=tokens is not None, policy=policy)
    print_stderr(*welcome(app.name, url, targets, old, tokens), *reading, "")
