"""Workers of ``serve``, ``run`` and ``gateway``: processes that accept connections on one port and share one store.

The parent opens a listening socket for each worker (``SO_REUSEPORT``) and keeps it, so connections wait while a worker
is replaced. It forks the workers before any code of the user is imported, and another process that holds the store,
unless the store is Redis. A worker that ends is started again.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from carrel.errors import ConfigError

if TYPE_CHECKING:
    from carrel.cli.config.read import Configuration
    from carrel.cli.server.worker import WorkerProcess

__all__ = ["check_workers", "number_of_workers", "start_workers"]


def number_of_workers(configuration: Configuration) -> int:
    """Return how many workers serve. 0 workers in the configuration are one for each core."""
    wanted = configuration.settings.http.workers
    if wanted:
        return wanted
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def check_workers(configuration: Configuration) -> None:
    """Check that the settings allow several workers.

    Raises:
        ConfigError: a setting is for one process, or the system cannot fork.
    """
    settings = configuration.settings
    where = configuration.origins["http.workers"].text
    if not hasattr(os, "fork"):
        raise ConfigError(f"{where}: several workers need Linux or macOS; here, use [state] and several servers")
    problems = {
        "--sse": settings.http.sse,
    }
    for problem, is_set in problems.items():
        if is_set:
            raise ConfigError(f"{where}: {problem} is for one process; leave it out, or use one worker")


def start_workers(configuration: Configuration) -> WorkerProcess | int | None:
    """Fork the workers of a configuration, if it has several.

    Returns None with one worker, a ``WorkerProcess`` in each worker, and, in the parent, the exit code after all ended.

    Raises:
        ConfigError: the settings do not allow several workers, or the address cannot be listened on.
    """
    count = number_of_workers(configuration)
    if count == 1 or configuration.settings.http.port is None:
        return None
    check_workers(configuration)
    import secrets

    from carrel.cli.server.supervisor import Supervisor
    from carrel.transports.server.listening import listen

    http, port = configuration.settings.http, configuration.settings.http.port
    assert port is not None
    balanced = sys.platform == "linux"  # elsewhere, only the last socket would get connections
    listeners = [listen(http.host, port, reuse_port=balanced)]
    port = listeners[0][0].getsockname()[1]
    while balanced and len(listeners) < count:
        listeners.append(listen(http.host, port, reuse_port=True))
    listeners += listeners[:1] * (count - len(listeners))
    preload()
    if configuration.settings.audit.file is not None:
        from carrel.audit.shared_file import lock_of

        with contextlib.suppress(FileNotFoundError):  # it may have the end of a chain whose file was removed
            Path(lock_of(configuration.settings.audit.file)).unlink()
    metrics = None
    if configuration.settings.metrics.port is not None:
        accepting = listen(configuration.settings.metrics.host, configuration.settings.metrics.port)[0]
        metrics = accepting, [listen("127.0.0.1", 0)[0] for _ in range(count)]
    key = secrets.token_bytes(32)
    has_store = configuration.settings.state.url is None
    outcome = Supervisor(listeners, has_store=has_store, grace=http.grace, patience=http.worker_timeout).run()
    if not isinstance(outcome, int):
        outcome.key, outcome.metrics = key, metrics
    return outcome


def preload() -> None:
    """Import what every worker needs, so that the workers share its memory."""
    import gc

    import carrel.server.app
    import carrel.state.remote.process
    import carrel.transports.server.uvicorn

    try:
        import carrel.transports.server.http_server
    except ImportError:
        raise ConfigError(carrel.transports.server.uvicorn.MISSING) from None
    gc.collect()
    gc.freeze()  # objects that no collection looks at, and whose memory stays shared
