"""Loading of servers: imports ``FILE[:NAME]`` or ``MODULE[:NAME]`` and returns its ``Server``.

The code is imported, not run as a program: code under ``if __name__ == "__main__"`` is not executed. If a file calls
``app.run()`` elsewhere, that app is the server, and loading stops at the call.

Programs for ``mcp`` 1.x or ``fastmcp`` are loaded with ``carrel.compat``, whether or not that package is installed; a
program that imports it only indirectly, if it is not installed. If such a program has no server at module level, it is
run until a server starts serving.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import re
import sys
import traceback
from collections.abc import Awaitable, Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

from carrel.awaitables import is_awaitable
from carrel.cli.server.compat_option import redirect
from carrel.cli.target import ServerLocation, read_location
from carrel.errors import ConfigError
from carrel.module_files import find_module_file
from carrel.near_names import did_you_mean
from carrel.server.app import Server

if TYPE_CHECKING:
    from carrel.transports.server.authorizer import Authorizer

__all__ = [
    "explain_import",
    "imported_packages",
    "load",
    "load_program",
    "program_authorization",
    "ready",
    "requires_compat",
]

#: Name of the function that creates the server if a file has no server and no name is given.
FACTORY = "make_app"
MAX_NAMED = 5
#: Maximum number of files of a package that are read.
MAX_FILES = 50
#: Packages that ``carrel.compat`` replaces.
MIRRORED = ("fastmcp", "mcp", "mcp_types")
#: Import of a server package in a Python file.
IMPORT = re.compile(r"(?m)^[ \t]*(?:from|import)[ \t]+(carrel|mcp|mcp_types|fastmcp)\b")


class _Served(BaseException):
    """Raised by ``Server.run`` during loading, instead of serving."""

    def __init__(self, server: Server[Any]) -> None:
        self.server = server


def load(given: str | ServerLocation) -> Server[Any] | Awaitable[Any]:
    """Import ``FILE[:NAME]`` or ``MODULE[:NAME]`` and return its server, or the awaitable of an asynchronous factory.

    NAME is a ``Server`` or a function that returns one. Without NAME, the code must define exactly one server, or a
    function ``make_app``. ``ready`` awaits an asynchronous factory.

    Raises:
        ConfigError: the file or module does not exist, cannot be imported, or has no server or several servers.
    """
    location = read_location(given) if isinstance(given, str) else given
    if requires_compat(location) and not any(name in sys.modules for name in MIRRORED):
        packages = " and ".join(sorted(used_packages(location)))
        redirect(location.program, None, f"{location.shown} is a program for {packages}")
    try:
        return _load(location)
    except ConfigError as error:
        missing = getattr(error.__cause__, "name", None)
        if not isinstance(error.__cause__, ModuleNotFoundError) or missing not in MIRRORED:
            raise
    redirect(location.program, None, f"{location.shown} is a program for {missing}, which is not installed here")
    return _load(location)


def load_program(program: list[str]) -> Server[Any]:
    """Run a program for ``mcp`` or ``fastmcp`` with its arguments until a server begins to serve; return the server.

    Imports must be redirected. A program that runs nothing may define one server instead.

    Raises:
        ConfigError: the program failed, or ended without running a server.
    """
    compat = _compat()
    assert compat is not None
    try:
        with compat.take_server() as taken:
            names = compat.run_program(program)
        app: Server[Any] = taken[0] if taken else compat.only_server(names, program)
    except ConfigError:
        raise
    except (Exception, SystemExit) as error:
        _explain(_location_of(program), error)
    return app


def explain_import(program: list[str], error: Exception) -> None:
    """Raise an error of the imports of a program in one line; return if another statement raised the error.

    Raises:
        ConfigError: a module or name is missing, or the program is not Python.
    """
    if not isinstance(error, AttributeError) or _absent(error) is not None:
        _explain(_location_of(program), error)


def _location_of(program: list[str]) -> ServerLocation:
    file = None if program[0] == "-m" else program[0]
    return ServerLocation(file or program[1], file, None)


def _load(location: ServerLocation) -> Server[Any] | Awaitable[Any]:
    compat = _compat()
    try:
        taking = contextlib.nullcontext([]) if compat is None else compat.take_server()
        with _no_serving(), _arguments_of(location), taking as taken:
            module = _import_file(location.file) if location.file else _import_module(location.shown)
            found = _named(module, location) if location.name else _only(module, location)
            made = found() if _is_factory(found) else found
        made = taken[0] if taken else made
    except _Served as served:
        made = served.server
    except ConfigError:
        raise
    except (Exception, SystemExit) as error:
        _explain(location, error)
    made = _as_server(made)
    if not isinstance(made, Server) and not is_awaitable(made):
        about = f"{location.shown}: {location.name or FACTORY}"
        raise ConfigError(f"{about} is a {_kind(made)}, and not a carrel.Server{_offer(location)}")
    return made


def _compat() -> ModuleType | None:
    """Return ``carrel.compat.loading`` if imports are redirected to ``carrel.compat``."""
    if not any(type(finder).__module__ == "carrel.compat.redirect" for finder in sys.meta_path):
        return None
    return importlib.import_module("carrel.compat.loading")


def program_authorization(app: Server[Any]) -> Authorizer | None:
    """Return the authorization that a program for ``mcp`` or ``fastmcp`` has for its server; None without any."""
    compat = _compat()
    return None if compat is None else compat.authorizer_of(app)


def _is_factory(value: object) -> bool:
    return callable(value) and not isinstance(value, Server)


def _as_server(value: Any) -> Any:
    """Return the Carrel server of an ``mcp`` or ``fastmcp`` server. Other values are returned unchanged."""
    compat = _compat()
    return value if compat is None else compat.application_of(value) or value


def _offer(location: ServerLocation) -> str:
    """Return a hint how to run a program whose package ``mcp`` or ``fastmcp`` is installed; "" for other programs."""
    used = next((name for name in MIRRORED if name in sys.modules), None)
    if used is None or _compat() is not None:
        return ""
    return f"; it is a program for {used}, which Carrel runs with: carrel run --compat {location.shown}"


def _as_it_is(location: ServerLocation) -> str:
    """Return how to run a program that is no server; "" if it uses neither ``mcp`` nor ``fastmcp``."""
    if not any(name in sys.modules for name in MIRRORED):
        return ""
    return f"; to run it as a program, with arguments: carrel run --compat {location.shown} ARGUMENTS"


async def ready(loaded: Server[Any] | Awaitable[Any]) -> Server[Any]:
    """Return the server returned by ``load``, awaiting it if it comes from an asynchronous factory.

    Raises:
        ConfigError: the factory failed, or returned something else.
    """
    if isinstance(loaded, Server):
        return loaded
    try:
        made = _as_server(await loaded)
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(f"the function that makes the server failed: {_described(error)}") from error
    if not isinstance(made, Server):
        raise ConfigError(f"the function that makes the server returned a {_kind(made)}, and not a carrel.Server")
    return made


def imported_packages(file: str) -> set[str]:
    """Return which of ``carrel``, ``mcp`` and ``fastmcp`` a Python file imports."""
    return set(IMPORT.findall(Path(file).read_text(encoding="utf-8", errors="replace")))


def requires_compat(location: ServerLocation) -> bool:
    """Return whether a file or module is a program for ``mcp`` or ``fastmcp``."""
    packages = used_packages(location)
    return bool(packages) and "carrel" not in packages


def used_packages(location: ServerLocation) -> set[str]:
    """Return which of ``carrel``, ``mcp`` and ``fastmcp`` a file or module imports, without importing it.

    If a module of a package imports none of them, return the imports of the files beside it.
    """
    if location.file is not None:
        return imported_packages(location.file)
    file = find_module_file(location.shown, "__init__.py")
    if file is None or file.suffix != ".py" or not file.is_file():
        return set()
    beside = sorted(file.parent.glob("*.py"))[:MAX_FILES] if (file.parent / "__init__.py").is_file() else []
    return imported_packages(str(file)) or set().union(*(imported_packages(str(each)) for each in beside))


@contextlib.contextmanager
def _no_serving() -> Iterator[None]:
    """Context manager in which ``run`` and ``run_async`` of servers stop the loading."""
    run, run_async = Server.run, Server.run_async

    def served(self: Server[Any], *_: Any, **__: Any) -> NoReturn:
        raise _Served(self)

    Server.run = Server.run_async = served  # type: ignore[method-assign]
    try:
        yield
    finally:
        Server.run, Server.run_async = run, run_async  # type: ignore[method-assign]


@contextlib.contextmanager
def _arguments_of(location: ServerLocation) -> Iterator[None]:
    """Hide the arguments of ``carrel`` from the code that is loaded: its ``sys.argv`` has its own name only."""
    arguments, sys.argv = sys.argv, [location.file or location.shown]
    try:
        yield
    finally:
        sys.argv = arguments


def _import_file(file: str) -> ModuleType:
    """Import a file as a module named after the file, with its folder first in ``sys.path``."""
    path = Path(file)
    _search(str(path.parent))
    name = path.stem
    if not name.isidentifier() or name in sys.modules or name in sys.stdlib_module_names:
        name = f"carrel_file_{path.stem}"
    loader = SourceFileLoader(name, file)
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def _import_module(name: str) -> ModuleType:
    _search(str(Path.cwd()))
    return importlib.import_module(name)


def _search(folder: str) -> None:
    if folder not in sys.path:
        sys.path.insert(0, folder)


def _named(module: ModuleType, location: ServerLocation) -> Any:
    assert location.name is not None
    if hasattr(module, location.name):
        return getattr(module, location.name)
    servers = [name for name in _servers(module).values() if name != location.name]
    choices = "; name " + " or ".join(f"{location.shown}:{name}" for name in servers) if servers else ""
    hint = did_you_mean(location.name, servers) or choices or did_you_mean(location.name, vars(module))
    hint = hint or f"; {_contents(module)}"
    raise ConfigError(f"{location.shown} has no {location.name}{hint}")


def _servers(module: ModuleType) -> dict[int, str]:
    """Return the names of the servers of a module that are not part of another one, by the identity of the server."""
    compat, names = _compat(), dict[int, str]()
    for name, value in vars(module).items():
        server = value if compat is None else compat.server_in(value) or value
        mounted = server.endpoint.runtime.is_mounted if isinstance(server, Server) else getattr(server, "served", True)
        if not mounted:
            names.setdefault(id(server), name)
    return names


def _only(module: ModuleType, location: ServerLocation) -> Any:
    """Return the only server of a module, or its function ``make_app``.

    A program for ``mcp`` or ``fastmcp`` with neither is run instead, until a server starts serving.
    """
    compat, names = _compat(), _servers(module)
    if len(names) == 1:
        return getattr(module, next(iter(names.values())))
    factory = getattr(module, FACTORY, None)
    if callable(factory) and not names:
        return factory
    if compat is not None:
        compat.run_program(location.program)
    if names:
        choices = " or ".join(f"{location.shown}:{name}" for name in names.values())
        raise ConfigError(f"{location.shown} has {len(names)} servers; name one: {choices}")
    if compat is not None:
        raise ConfigError(f"{location.shown} ended without running a server; {_contents(module)}{_as_it_is(location)}")
    raise ConfigError(f"{location.shown} has no carrel.Server; {_contents(module)}{_offer(location)}")


def _contents(module: ModuleType) -> str:
    """Describe the names that a module defines, for an error message."""
    found = [
        f"{name} ({_kind(value)})"
        for name, value in vars(module).items()
        if not name.startswith("_")
        and not isinstance(value, ModuleType | type)
        and (not hasattr(value, "__module__") or not callable(value) or value.__module__ == module.__name__)
        and not str(getattr(type(value), "__module__", "")).startswith(("typing", "__future__"))
    ]
    if not found:
        return "it defines nothing but imports and classes"
    more = f" and {len(found) - MAX_NAMED} more" if len(found) > MAX_NAMED else ""
    return f"it has {', '.join(found[:MAX_NAMED])}{more}"


def _kind(value: object) -> str:
    return type(value).__name__


def _explain(location: ServerLocation, error: BaseException) -> NoReturn:
    """Raise an error of the user's code as a one-line ConfigError with the line number of the code.

    Raises:
        ConfigError: always.
    """
    absent = _absent(error)
    if location.file is None and type(error) is ImportError and _is_from_runpy(location.shown, str(error)):
        if Path(location.shown).is_file():
            raise ConfigError(f"{location.shown} is a file: carrel run --compat {location.shown}") from error
        raise ConfigError(
            f"there is no module {location.shown} here: install its package in {sys.prefix}, or name a file: "
            "carrel run --compat FILE"
        ) from error
    if isinstance(error, ModuleNotFoundError) and error.name is not None and absent is None:
        if location.file is None and (location.shown == error.name or location.shown.startswith(f"{error.name}.")):
            raise ConfigError(f"there is no module {error.name} here, and no file of that name") from error
        from carrel.cli.server.script import missing

        raise ConfigError(missing(location.shown, location.file, error.name)) from error
    if isinstance(error, SystemExit) and not error.code:
        raise ConfigError(f"{location.shown} ended without running a server") from error
    hint = "" if isinstance(error, ImportError | SyntaxError) or absent else _as_it_is(location)
    if isinstance(error, ImportError) and "relative import" in str(error):
        hint = "; name it as a module of its package instead: carrel run PACKAGE.MODULE"
    if isinstance(error, SyntaxError) and location.file is not None and not location.file.endswith(".py"):
        raise ConfigError(f"{location.shown} is not a Python file: {error.msg}") from error
    raise ConfigError(f"{location.shown} cannot be loaded: {_described(error, absent)}{hint}") from error


def _is_from_runpy(module: str, message: str) -> bool:
    """Return whether a message of ``runpy`` is about a module that does not exist."""
    missing = re.search(r"(?:No module named|attribute not found on) '?([\w.]+)", message)
    return missing is not None and f"{module}.".startswith(f"{missing[1]}.")


def _absent(error: BaseException) -> str | None:
    """Return what to use in place of a module or name that ``carrel.compat`` does not have; None for other errors."""
    return None if _compat() is None else importlib.import_module("carrel.compat.absent").explain(error)


def _described(error: BaseException, absent: str | None = None) -> str:
    """Describe an exception raised by the user's code, with its file and line. ``absent`` replaces its text."""
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error.msg} ({Path(error.filename or '?').name}, line {error.lineno})"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_authors(frame.filename)]
    where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return (absent or text) + where


def _is_authors(file: str) -> bool:
    own = str(Path(__file__).parents[2])
    return (
        not file.startswith((own, "<frozen")) and "site-packages" not in file and not file.startswith(sys.base_prefix)
    )
