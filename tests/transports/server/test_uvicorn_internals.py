"""The private parts of uvicorn that Carrel uses exist in the installed version, and are listed."""

from __future__ import annotations

import ast
import asyncio
import tomllib
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import uvicorn
from uvicorn.server import ServerState

import carrel
from carrel.transports.server.uvicorn_internals import (
    CYCLE_ATTRIBUTES,
    PROTOCOL_ATTRIBUTES,
    HttpToolsProtocol,
    cycle_of,
)

SOURCE = Path(carrel.__file__).parent
ROOT = Path(__file__).parents[3]
SERVER = SOURCE / "transports" / "server"


class Output(asyncio.Transport):
    """Transport of a connection: drops what is written to it."""

    def write(self, data: Any) -> None:
        pass

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def is_closing(self) -> bool:
        return False


async def exchange() -> tuple[HttpToolsProtocol, Any]:
    """A connection of uvicorn's protocol that has received a request, and its ``RequestResponseCycle``."""
    called = asyncio.get_running_loop().create_future()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        called.set_result(cycle_of(send))

    config = uvicorn.Config(app, lifespan="off", log_config=None)
    protocol = HttpToolsProtocol(config=config, server_state=ServerState(), app_state={})
    protocol.connection_made(Output())
    protocol.data_received(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
    return protocol, await called


def attributes_of(file: str, *names: str) -> set[str]:
    """The attributes that a module uses of variables, or of attributes of ``self``."""
    found = set()
    for node in ast.walk(ast.parse((SERVER / file).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in names:
            found.add(node.attr)
    return found


async def test_each_attribute_of_uvicorn_that_is_used_exists() -> None:
    protocol, cycle = await exchange()
    missing = [f"HttpToolsProtocol.{name}" for name in PROTOCOL_ATTRIBUTES if not hasattr(protocol, name)]
    missing += [f"RequestResponseCycle.{name}" for name in CYCLE_ATTRIBUTES if not hasattr(cycle, name)]
    assert not missing, (
        f"uvicorn {version('uvicorn')} no longer has {', '.join(sorted(missing))}: see uvicorn_internals"
    )


def test_each_attribute_of_a_cycle_that_is_used_is_listed() -> None:
    used = attributes_of("direct.py", "cycle", "self._cycle")
    used |= attributes_of("http_protocol.py", "cycle", "self.cycle", "self._running", "self._protocol.cycle")
    assert used == CYCLE_ATTRIBUTES


def test_each_attribute_of_the_protocol_that_is_used_is_listed() -> None:
    tree = ast.parse((SERVER / "http_protocol.py").read_text(encoding="utf-8"))
    own = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "LimitedProtocol")
    defined = {node.name for node in own.body if isinstance(node, ast.FunctionDef)} - {"shutdown"}
    used = {name for name in attributes_of("http_protocol.py", "self") if not name.startswith("_")}
    assert (
        used - defined - {"group", "handshake", "is_closing", "on_body", "on_message_complete", "status", "write"}
        <= PROTOCOL_ATTRIBUTES
    )


def test_no_other_module_imports_private_parts_of_uvicorn() -> None:
    importing = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if any(f"{word} uvicorn." in path.read_text(encoding="utf-8") for word in ("import", "from"))
    }
    assert importing == {"transports/server/uvicorn_internals.py"}


def test_the_version_of_uvicorn_has_an_upper_bound() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert any(name.startswith("uvicorn") and ",<" in name for name in extras["http"])


def test_a_function_of_another_server_has_no_cycle() -> None:
    async def send(_: Any) -> None:
        """Send nothing."""

    assert cycle_of(send) is None
    assert cycle_of(SimpleNamespace(send=send).send) is None
