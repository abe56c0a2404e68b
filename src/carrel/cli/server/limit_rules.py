"""Limits on the requests of ``serve``, ``run`` and ``gateway``, from ``[[limits.rules]]`` of ``carrel.toml``."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from carrel.errors import ConfigError, MCPError, TooManyRequests
from carrel.log import Log

if TYPE_CHECKING:
    from carrel.cli.config.read import Configuration
    from carrel.policy.limiter import Limiter, LimitRule
    from carrel.policy.policy import Policy
    from carrel.protocol.observer import RejectedRequest
    from carrel.protocol.principal import Principal
    from carrel.protocol.server import Call, Reply
    from carrel.server.app import Server
    from carrel.server.middleware.middleware import Next
    from carrel.transports.server.options import ServeOptions
    from carrel.wire.base import Result

__all__ = ["add_limits"]

log = Log("carrel.policy")


def add_limits(app: Server[Any], configuration: Configuration, http: ServeOptions | None) -> None:
    """Limit the requests of a server by the rules of the configuration, if there are any. The rules follow the file."""
    if not configuration.limit_rules or configuration.file is None:
        return
    from carrel.file_changes import FileChanges
    from carrel.policy.limiter import Limiter
    from carrel.protocol.encoding import encode
    from carrel.protocol.methods import DISCOVER, INITIALIZE, PING

    file, local = configuration.file, http is None or http["authorization"] is not None
    policy = configuration.policy
    free = {row.method for row in (DISCOVER, INITIALIZE, PING)}  # a client needs them to connect, and to stay connected

    def roles_of(principal: Principal | None) -> frozenset[str]:
        if policy is None:
            return frozenset()
        policy.local = local
        return policy.roles_of(principal)

    limiter = Limiter(configuration.limit_rules, lambda: app.endpoint.replica.quotas, roles_of)

    def read_again() -> None:
        nonlocal policy
        try:
            rules, policy = _read(file, policy)
        except ConfigError as error:
            log.error("the limits are not changed: %s", error)
            return
        except Exception:
            log.exception("the limits are not changed: %s cannot be read", file)
            return
        limiter.set_rules(rules)
        log.warning("the limits have been read again: %s", file)

    async def limit(call: Call, next: Next) -> Result:
        if call.request.method in free:
            return await next(call)
        admission = await limiter.admit(call)
        try:
            result = await next(call)
        finally:
            admission.close()
        if admission.counted and not call.request.endless:
            await limiter.spend(admission, len(encode(result)))
        return result

    app.middleware(limit)
    app.endpoint.observe(RejectedRequests(limiter))
    changes = FileChanges([file], read_again)
    app.on_startup(changes.start)
    app.on_shutdown(changes.stop)


class RejectedRequests:
    """Observer that counts requests of unknown methods and with invalid parameters, which middleware does not see."""

    def __init__(self, limiter: Limiter) -> None:
        self._limiter = limiter
        self._counting: set[asyncio.Task[None]] = set()

    def admit(self, call: Call) -> None:
        """Admit every call."""

    def answered(self, call: Call, reply: Reply | None, seconds: float) -> None:
        """Count a request that has no operation."""
        if not call.request.operation:
            task = asyncio.get_running_loop().create_task(self._count(call))
            self._counting.add(task)
            task.add_done_callback(self._counting.discard)

    def http_rejected(self, request: RejectedRequest) -> None:
        """Ignore a request that the HTTP transport has refused."""

    async def _count(self, call: Call) -> None:
        try:
            (await self._limiter.admit(call)).close()
        except TooManyRequests:
            pass  # the limiter has counted and logged it; the client has the error of the request itself
        except MCPError as error:
            log.warning("a rejected request is not counted: %s", error)


def _read(file: str, policy: Policy | None) -> tuple[list[LimitRule], Policy | None]:
    """Read the limit rules and the roles again.

    Raises:
        ConfigError: the file has an error.
    """
    from carrel.cli.config.toml import read_file

    contents = read_file(file)
    if contents.problems:
        raise ConfigError(contents.problems[0])
    return contents.limit_rules, contents.policy or policy
