"""Audit log of ``serve``, ``run`` and ``gateway``, from ``[audit]`` of ``carrel.toml``."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from carrel.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from carrel.audit import AuditOptions
    from carrel.cli.config.read import Configuration
    from carrel.cli.config.settings import AuditSettings
    from carrel.policy.policy import Policy
    from carrel.protocol.methods import Verb
    from carrel.protocol.principal import Principal
    from carrel.protocol.server import Call
    from carrel.server.app import Server

__all__ = ["add_audit", "audit_options"]

#: How many explained decisions are kept.
KEPT = 4096


def audit_options(settings: AuditSettings) -> AuditOptions | None:
    """Return the options of the audit log, or None without one."""
    if settings.file is None:
        return None
    from carrel.audit import AuditOptions

    return AuditOptions(
        file=settings.file,
        max_size=settings.max_size,
        keep=settings.keep,
        on_full=settings.on_full,
        chain=settings.chain,
        key=(settings.key or "").encode(),
    )


def add_audit(app: Server[Any], configuration: Configuration) -> None:
    """Record all requests in the audit log of the configuration, if there is one. Call this before ``add_policy``.

    Hooks end in reverse order, so the log is closed after everything that is recorded.

    Raises:
        ConfigError: the file cannot be opened, or a setting needs one that is missing.
    """
    settings = configuration.settings.audit
    options = audit_options(settings)
    if options is None:
        if configuration.given("audit"):
            raise ConfigError(f"{configuration.where('audit')}: [audit] needs a file")
        return
    if options.key and not options.chain:
        raise ConfigError(f"{configuration.where('audit')}: [audit] key is for chain = true")
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

    def roles_of(principal: Principal | None) -> Iterable[str]:
        gate = app.gate
        return gate.policy.roles_of(principal) if isinstance(gate, PolicyGate) else ()

    recorder = AuditRecorder(
        options,
        roles_of=roles_of,
        explain=None if configuration.policy is None else explain,
        arguments=settings.arguments,
    )
    app.endpoint.observe(recorder)
    app.on_startup(recorder.log.start)
    app.on_shutdown(recorder.log.stop)
