"""Access policy of ``serve``, ``run`` and ``gateway``, from ``[access]`` of ``carrel.toml``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from carrel.errors import ConfigError

if TYPE_CHECKING:
    from carrel.cli.config.read import Configuration
    from carrel.policy.authzen_options import AuthZenOptions
    from carrel.policy.policy import Policy
    from carrel.policy.server_view import FindTarget
    from carrel.server.app import Server
    from carrel.transports.server.options import ServeOptions

__all__ = ["add_policy"]


def add_policy(
    app: Server[Any], configuration: Configuration, http: ServeOptions | None, find_target: FindTarget | None = None
) -> None:
    """Let the policy of the configuration, if there is one, decide about all requests. It follows the file.

    ``find_target`` finds the targets of a gateway. Callers without a principal are local on stdio, and with
    authorization: over HTTP, each one has a principal then.

    Raises:
        ConfigError: the server has a gate, or a rule is for a server of a gateway, and this server is no gateway.
    """
    if configuration.policy is None or configuration.file is None:
        return
    from carrel.policy.gate import PolicyGate

    if app.gate is not None:
        raise ConfigError(f"{configuration.file}: [access] is for servers without a gate, and {app.name} has one")
    file, local = configuration.file, http is None or http["authorization"] is not None
    if configuration.policy.engine is not None:
        configuration.policy.local = local
        add_engine(app, configuration.policy, configuration.policy.engine, configuration.folder)
        return

    def load() -> Policy:
        from carrel.cli.config.toml import read_file

        contents = read_file(file)
        if contents.problems:
            raise ConfigError(contents.problems[0])
        if contents.policy is not None and contents.policy.engine is not None:
            raise ConfigError(f"{file} has [access.engine] now: restart the server")
        if contents.policy is None:
            raise ConfigError(f"{file} has no [access] any more; to allow everything, restart the server")
        for rule in contents.policy.rules:
            if rule.server is not None and find_target is None:
                raise ConfigError(f"{rule.where}: server is for rules of carrel gateway, which has several servers")
        contents.policy.local, contents.policy.find_target = local, find_target
        return contents.policy

    gate = app.gate = PolicyGate(file, load, app.list_changed)
    app.on_startup(gate.start)
    app.on_shutdown(gate.stop)


def add_engine(app: Server[Any], policy: Policy, options: AuthZenOptions, folder: str) -> None:
    """Let a policy engine decide about all requests.

    Raises:
        ConfigError: the URL is invalid, the token cannot be read, or a package is missing.
    """
    import msgspec

    from carrel.extras import explain_missing
    from carrel.policy.authzen import AuthZen
    from carrel.policy.engine import EngineGate
    from carrel.references import look_up, substitute

    try:
        import aiohttp  # noqa: F401
    except ModuleNotFoundError as error:
        raise ConfigError(explain_missing(error, "client") or str(error)) from None
    token = substitute(options.token, lambda name: look_up(name, folder, secret=True))
    engine = AuthZen(msgspec.structs.replace(options, token=token))
    gate = app.gate = EngineGate(engine, policy.roles_of, app.list_changed)
    app.middleware(gate)
    app.on_shutdown(gate.close)
