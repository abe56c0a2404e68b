"""Audit log and metrics of ``serve``, ``run`` and ``gateway``: ``[audit]`` and ``[metrics]`` of ``carrel.toml``."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from carrel.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from carrel.audit import AuditDestination, AuditRecorder
    from carrel.cli.config.read import Configuration
    from carrel.cli.config.settings import AuditSettings
    from carrel.policy.policy import Policy
    from carrel.protocol.methods import Verb
    from carrel.protocol.principal import Principal
    from carrel.protocol.server import Call
    from carrel.server.app import Server

__all__ = ["Upstreams", "add_operations", "audit_destinations"]

Upstreams: TypeAlias = "Callable[[], Mapping[str, bool]]"
"""Returns whether each server behind a gateway is available."""

#: How many explained decisions are kept.
KEPT = 4096


def audit_destinations(settings: AuditSettings, *, shared: bool) -> Iterator[AuditDestination]:
    """Yield the destinations of the audit log. Other processes write to its file too if it is ``shared``.

    Raises:
        ConfigError: a file cannot be opened, a URL is invalid, or OpenTelemetry is not set up.
    """
    if settings.file is not None:
        from carrel.audit import AuditFile, FileOptions

        key = (settings.key or "").encode()
        options = FileOptions(
            path=settings.file, max_size=settings.max_size, keep=settings.keep, chain=settings.chain, key=key
        )
        if shared:
            from carrel.audit.shared_file import SharedAuditFile

            yield SharedAuditFile(options)
        else:
            yield AuditFile(options)
    if settings.stderr:
        from carrel.audit import AuditStream

        yield AuditStream()
    if settings.syslog is not None:
        from carrel.audit import Syslog

        yield Syslog(settings.syslog)
    if settings.otel:
        from carrel.audit import Telemetry

        yield Telemetry()


def add_operations(app: Server[Any], configuration: Configuration, upstreams: Upstreams = dict) -> None:
    """Add the audit log and the metrics of the configuration, if there are any. Call this before ``add_policy``.

    Hooks end in reverse order, so the log is closed after everything that is recorded.

    Raises:
        ConfigError: a file or an address cannot be opened, a setting is missing, or a package.
    """
    recorder = add_audit(app, configuration)
    if configuration.settings.metrics.port is not None:
        add_metrics(app, configuration, upstreams, recorder)


def add_metrics(
    app: Server[Any], configuration: Configuration, upstreams: Upstreams, recorder: AuditRecorder | None
) -> None:
    """Serve the metrics of an application on a separate listener.

    Raises:
        ConfigError: the address cannot be listened on.
    """
    from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

    from carrel.cli.terminal.messages import print_stderr
    from carrel.metrics import MetricsListener, MetricsObserver, ServerState, StateCollector

    settings, endpoint = configuration.settings.metrics, app.endpoint
    assert settings.port is not None
    started: list[bool] = []

    def problems() -> Iterable[str]:
        if endpoint.is_stopping:
            yield "the server is stopping"
        elif not started:
            yield "the server is starting"
        for name in endpoint.unavailable_sources():
            yield f"{name} is not available"
        for name, available in upstreams().items():
            if not available:
                yield f"{name} is not connected"
        if recorder is not None and recorder.refuses:
            yield "the audit log cannot be written"

    state = ServerState(
        endpoint.gauges,
        lambda: {**endpoint.sources(), **upstreams()},
        lambda: dict(endpoint.catalog.failures),
        problems,
    )
    registry = CollectorRegistry()
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=registry)
    registry.register(StateCollector(state))
    endpoint.observe(MetricsObserver(registry))
    worker = configuration.worker
    if worker is None or worker.metrics is None:
        listener = MetricsListener(settings.host, settings.port, registry, state, settings.allowed_hosts)
    else:
        from carrel.metrics.workers import WorkerMetrics

        accepting, reporting = worker.metrics
        workers = WorkerMetrics(reporting, worker.number, registry, state)
        workers.start()
        app.on_shutdown(workers.stop)
        listener = MetricsListener(
            settings.host, settings.port, workers, workers, settings.allowed_hosts, listener=accepting
        )
    listener.start()
    if worker is None or worker.greets:
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        print_stderr(f"carrel: metrics are at http://{host}:{listener.port}/metrics")
    app.on_startup(state.lag.start)
    app.on_startup(lambda: started.append(True))
    app.on_shutdown(listener.stop)
    app.on_shutdown(state.lag.stop)
    app.on_shutdown(started.clear)


def add_audit(app: Server[Any], configuration: Configuration) -> AuditRecorder | None:
    """Record all requests in the audit log of the configuration, if there is one, and return its recorder.

    Raises:
        ConfigError: the file cannot be opened, or a setting needs one that is missing.
    """
    settings = configuration.settings.audit
    where = configuration.where("audit")
    if settings.key and not settings.chain:
        raise ConfigError(f"{where}: [audit] key is for chain = true")
    if settings.chain and settings.file is None:
        raise ConfigError(f"{where}: [audit] chain is for a file")
    destinations = list(audit_destinations(settings, shared=configuration.worker is not None))
    if not destinations:
        if configuration.given("audit"):
            raise ConfigError(f"{where}: [audit] needs a file, stderr, syslog or otel")
        return None
    from carrel.audit import AuditRecorder
    from carrel.policy.decision import decide
    from carrel.policy.gate import PolicyGate

    @lru_cache(KEPT)
    def decided(policy: Policy, view: Any, verb: Verb, target: str) -> tuple[bool, str]:
        decision = decide(policy, view, verb, target)
        return decision.allowed, str(decision)

    def explain(call: Call, verb: str, target: str) -> tuple[bool, str]:
        gate = app.gate
        assert isinstance(gate, PolicyGate)
        return decided(gate.policy, gate.view(call.principal), verb, target)

    policy = configuration.policy
    engine = policy is not None and policy.engine is not None

    def roles_of(principal: Principal | None) -> Iterable[str]:
        gate = app.gate
        if engine and policy is not None:
            return policy.roles_of(principal)
        return gate.policy.roles_of(principal) if isinstance(gate, PolicyGate) else ()

    recorder = AuditRecorder(
        destinations,
        on_full=settings.on_full,
        roles_of=roles_of,
        explain=None if policy is None or engine else explain,
        arguments=settings.arguments,
    )
    app.endpoint.observe(recorder)
    app.on_startup(recorder.start)
    app.on_shutdown(recorder.stop)
    return recorder
