"""Loading of servers: ``FILE[:NAME]`` or ``MODULE[:NAME]`` to the ``Server`` that the Python code has, or makes.

The code is imported, not run as a program: what is under ``if __name__ == "__main__"`` is not executed. A file that
calls ``app.run()`` elsewhere is understood: that app is the server, and loading ends there.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Awaitable, Iterator
from importlib.machinery import SourceFileLoader
from inspect import isawaitable
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from carrel.cli.targets import nearest
from carrel.errors import ConfigError
from carrel.server.app import Server

__all__ = ["Place", "load", "read_place", "ready"]

#: Name of the function that makes the server where a file has none and no name is given.
FACTORY = "make_app"
MAX_NAMED = 5


class Place:
    """Place of a server: a file (an absolute path, or None), the file or module as it was given, and a name in it."""

    def __init__(self, shown: str, file: str | None, name: str | None) -> None:
        self.shown = shown
        self.file = file
        self.name = name

    @property
    def absolute(self) -> str:
        """The place with the absolute path of its file."""
        return (self.file or self.shown) + (f":{self.name}" if self.name else "")


class _Served(BaseException):
    """Raised by ``Server.run`` while code is loaded: the code would begin to serve."""

    def __init__(self, server: Server[Any]) -> None:
        self.server = server


def load(given: str | Place) -> Server[Any] | Awaitable[Any]:
    """Import ``FILE[:NAME]`` or ``MODULE[:NAME]`` and return its server, or what an asynchronous factory returned.

    NAME is a ``Server`` or a function that returns one. Without it, the code has one server, or a function
    ``make_app``. ``ready`` awaits the factory.

    Raises:
        ConfigError: there is no such file or module, it cannot be imported, or has no server, or several.
    """
    place = read_place(given) if isinstance(given, str) else given
    try:
        with _no_serving():
            module = _import_file(place.file) if place.file else _import_module(place.shown)
            found = _named(module, place) if place.name else _only(module, place)
            made = found if isinstance(found, Server) or not callable(found) else found()
    except _Served as served:
        made = served.server
    except ConfigError:
        raise
    except (Exception, SystemExit) as error:
        _explain(place, error)
    if not isinstance(made, Server) and not isawaitable(made):
        raise ConfigError(f"{place.shown}: {place.name or FACTORY} is a {_kind(made)}, and not a carrel.Server")
    return made


async def ready(loaded: Server[Any] | Awaitable[Any]) -> Server[Any]:
    """Return the server that ``load`` has found, or await its factory.

    Raises:
        ConfigError: the factory failed, or returned something else.
    """
    if isinstance(loaded, Server):
        return loaded
    try:
        made = await loaded
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(f"the function that makes the server failed: {_described(error)}") from error
    if not isinstance(made, Server):
        raise ConfigError(f"the function that makes the server returned a {_kind(made)}, and not a carrel.Server")
    return made


def read_place(text: str) -> Place:
    """Parse ``FILE[:NAME]`` or ``MODULE[:NAME]``.

    Raises:
        ConfigError: there is no such file.
    """
    place, _, name = text.rpartition(":")
    if not place or not name.isidentifier() or len(place) == 1 or Path(text).exists():  # C:\server.py has a colon, too
        place, name = text, ""
    path = Path(place).expanduser()
    if path.is_file():
        return Place(place, os.path.abspath(path), name or None)  # noqa: PTH100
    if path.is_dir():
        raise ConfigError(f"{place} is a folder: name the file with the server, or share it with carrel serve {place}")
    if path.suffix == ".py" or not all(part.isidentifier() for part in place.split(".")):
        raise ConfigError(f"no such file: {place}{nearest(os.path.abspath(path))}")  # noqa: PTH100
    return Place(place, None, name or None)


@contextlib.contextmanager
def _no_serving() -> Iterator[None]:
    """Make ``run`` and ``run_async`` of servers end the loading."""
    run, run_async = Server.run, Server.run_async

    def served(self: Server[Any], *_: Any, **__: Any) -> NoReturn:
        raise _Served(self)

    Server.run = Server.run_async = served  # type: ignore[method-assign]
    try:
        yield
    finally:
        Server.run, Server.run_async = run, run_async  # type: ignore[method-assign]


def _import_file(file: str) -> ModuleType:
    """Import a file as a module of its own name, with its folder first in ``sys.path``."""
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


def _named(module: ModuleType, place: Place) -> Any:
    assert place.name is not None
    if hasattr(module, place.name):
        return getattr(module, place.name)
    from difflib import get_close_matches

    close = get_close_matches(place.name, vars(module), n=1)
    hint = f"; did you mean {close[0]}?" if close else f"; {_contents(module)}"
    raise ConfigError(f"{place.shown} has no {place.name}{hint}")


def _only(module: ModuleType, place: Place) -> Any:
    """Return the only server of a module, or its function ``make_app``."""
    names: dict[int, str] = {}
    for name, value in vars(module).items():
        if isinstance(value, Server) and not value.endpoint.runtime.is_mounted:
            names.setdefault(id(value), name)
    if len(names) == 1:
        return getattr(module, next(iter(names.values())))
    if names:
        choices = " or ".join(f"{place.shown}:{name}" for name in names.values())
        raise ConfigError(f"{place.shown} has {len(names)} servers; name one: {choices}")
    factory = getattr(module, FACTORY, None)
    if callable(factory):
        return factory
    raise ConfigError(f"{place.shown} has no carrel.Server; {_contents(module)}")


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


def _explain(place: Place, error: BaseException) -> NoReturn:
    """Raise what went wrong while code was imported as one line, with the line of the code.

    Raises:
        ConfigError: always.
    """
    if isinstance(error, ModuleNotFoundError) and error.name is not None:
        if place.file is None and (place.shown == error.name or place.shown.startswith(f"{error.name}.")):
            raise ConfigError(f"there is no module {error.name} here, and no file of that name") from error
        from carrel.cli.script import missing

        raise ConfigError(missing(place.shown, place.file, error.name)) from error
    hint = ""
    if isinstance(error, ImportError) and "relative import" in str(error):
        hint = "; name it as a module of its package instead: carrel run PACKAGE.MODULE"
    raise ConfigError(f"{place.shown} cannot be loaded: {_described(error)}{hint}") from error


def _described(error: BaseException) -> str:
    """Describe an exception of an author's code, with the place in that code."""
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error.msg} ({Path(error.filename or '?').name}, line {error.lineno})"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_authors(frame.filename)]
    where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return text + where


def _is_authors(file: str) -> bool:
    own = str(Path(__file__).parents[1])
    return (
        not file.startswith((own, "<frozen")) and "site-packages" not in file and not file.startswith(sys.base_prefix)
    )
