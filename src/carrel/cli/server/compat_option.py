"""Option ``--compat``: runs programs for ``mcp`` and ``fastmcp`` on ``carrel.compat``."""

from __future__ import annotations

from carrel.errors import ConfigError

__all__ = ["COMPAT", "SPELLINGS", "flag", "redirect", "take_generation"]

COMPAT = "--compat"
#: Values of ``--compat``: the major version of ``mcp`` that a program was written for.
GENERATIONS = {"mcp1": 1, "mcp2": 2}
#: The option as parsers of commands accept it.
SPELLINGS = (COMPAT, *(f"{COMPAT}={name}" for name in GENERATIONS))


def flag(generation: int | None) -> str:
    """Return the option for a generation, as it is written on a command line."""
    return COMPAT if generation is None else SPELLINGS[generation]


def take_generation(arguments: list[str]) -> tuple[list[str], int | None]:
    """Return arguments with ``--compat=mcp2`` as ``--compat``, and the generation; None without one.

    Raises:
        ConfigError: there is no such generation.
    """
    given = next((word for word in arguments if word.startswith(f"{COMPAT}=")), None)
    if given is None or "--" in arguments[: arguments.index(given)]:
        return arguments, None
    name = given.partition("=")[2]
    if name not in GENERATIONS:
        raise ConfigError(f"argument {COMPAT}: {name!r} is neither {' nor '.join(GENERATIONS)}")
    return [COMPAT if word is given else word for word in arguments], GENERATIONS[name]


def redirect(
    program: list[str], generation: int | None, reason: str = f"{COMPAT} runs programs for mcp and fastmcp"
) -> None:
    """Redirect imports of ``mcp``, ``mcp_types`` and ``fastmcp`` to ``carrel.compat``.

    ``generation`` is the major version of ``mcp`` that the program was written for; by default, the program tells.

    Raises:
        ConfigError: a package is missing, or ``mcp`` or ``fastmcp`` is already imported: the message begins with the
            reason. Or the program is not named.
    """
    try:
        from carrel.compat import redirect_imports
        from carrel.compat.generation import find_fastmcp, find_generation

        redirect_imports(generation or find_generation(program), find_fastmcp(program))
    except ImportError as error:
        raise ConfigError(f"{reason}; Carrel can run it, but {error}") from None
