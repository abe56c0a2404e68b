"""Gateway: many servers of any revision as one server of every revision."""

import typing

if typing.TYPE_CHECKING:
    from carrel.gateway.gateway import Gateway

__all__ = ["Gateway"]


def __getattr__(name: str) -> typing.Any:
    if name != "Gateway":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from carrel.gateway.gateway import Gateway  # imported on first use: names need no client

    globals()[name] = Gateway
    return Gateway
