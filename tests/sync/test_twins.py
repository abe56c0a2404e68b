"""Every public method of the asynchronous classes has a synchronous twin with the same parameters."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from carrel import Client
from carrel.agents import VendorTools, tools_of
from carrel.client import options
from carrel.client.handlers import Handlers
from carrel.client.server_skills import ServerSkills
from carrel.client.skills import SkillSnapshot
from carrel.client.state import ClientState
from carrel.client.tasks import Tasks, ToolTask
from carrel.client.watch import Watch
from carrel.host import Host
from carrel.sync import client, handlers, host, skills, state, tasks, tools, watch
from carrel.sync import options as sync_options
from support.type_checker import check_types

PAIRS = [
    (Client, client.Client),
    (Host, host.Host),
    (ServerSkills, skills.ServerSkills),
    (SkillSnapshot, skills.SkillSnapshot),
    (ClientState, state.ClientState),
    (Tasks, tasks.Tasks),
    (ToolTask, tasks.ToolTask),
    (Watch, watch.Watch),
    (VendorTools, tools.VendorTools),
]
#: Methods for the library itself.
OWN = {
    Host: {"index"},
    ServerSkills: {"declared", "request", "pages"},
    ClientState: {"set"},
    Tasks: {"follow", "request", "start", "answer", "forget", "cancel_later"},
    ToolTask: {"listen", "take_notice"},
    Watch: {"put", "take_notice", "miss"},
}


def methods(kind: type) -> dict[str, Any]:
    return {name: value for name, value in vars(kind).items() if inspect.isfunction(value) and not name.startswith("_")}


def parameters(function: Any) -> list[tuple[str, Any, Any]]:
    return [(one.name, one.kind, one.default) for one in inspect.signature(function).parameters.values()]


@pytest.mark.parametrize(("kind", "twin"), PAIRS, ids=lambda kind: kind.__module__)
def test_methods_have_twins_with_the_same_parameters(kind: type, twin: type) -> None:
    wanted = methods(kind)
    for name in OWN.get(kind, ()):
        del wanted[name]
    assert methods(twin).keys() == wanted.keys()
    for name, method in wanted.items():
        assert parameters(getattr(twin, name)) == parameters(method), name
        assert not inspect.iscoroutinefunction(getattr(twin, name))


USE = """
from typing import assert_type
from carrel.catalog.provider import Hit
from carrel.client.state import StateChange
from carrel.host.selection import Hosted
from carrel.sync import Client, Host
from carrel.sync.skills import SkillSnapshot
from carrel.wire.resources import ResourceContents


def use(client: Client, host: Host, skill: SkillSnapshot) -> None:
    assert_type(client.state.wait_for("connected"), StateChange)
    assert_type(host.search("tea", limit=3, tags=["green"]), list[Hosted[Hit]])
    assert_type(skill.read("notes.md"), ResourceContents)
    client.ping(timeout="1")  # type: ignore[arg-type]
    host.search("tea", limits=3)  # type: ignore[call-arg]
    skill.read()  # type: ignore[call-arg]
"""
#: What these types are made of. With other packages, mypy reads ten times as much.
FOLLOWED = """follow_imports = skip
[mypy-use,carrel,carrel.*,asyncio,asyncio.*,collections.*,concurrent.*,msgspec,types,typing]
follow_imports = silent
"""


@pytest.mark.slow
def test_methods_that_only_wait_have_the_types_of_the_asynchronous_ones(tmp_path: Path) -> None:
    (tmp_path / "use.py").write_text(USE)
    done = check_types([tmp_path / "use.py"], FOLLOWED, cached=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(("kind", "twin"), [pair for pair in PAIRS if pair[0] in (Client, Host)])
def test_constructors_have_the_same_parameters(kind: type, twin: type) -> None:
    assert parameters(twin.__init__) == parameters(kind.__init__)


def test_properties_of_the_client_have_twins() -> None:
    def properties(kind: type) -> set[str]:
        return {name for name, value in vars(kind).items() if isinstance(value, property)}

    assert properties(client.Client) == properties(Client)


def test_the_function_for_tools_has_a_twin() -> None:
    assert [one[2] for one in parameters(tools.tools_of)] == [one[2] for one in parameters(tools_of)]
    assert [one[0] for one in parameters(tools.tools_of)][1:] == [one[0] for one in parameters(tools_of)][1:]


def test_options_and_handlers_are_the_same() -> None:
    assert handlers.Handlers.__struct_fields__ == Handlers.__struct_fields__
    for name in ("CallOptions", "ClientOptions"):
        assert getattr(sync_options, name).__annotations__.keys() == getattr(options, name).__annotations__.keys()


def test_no_method_returns_anything() -> None:
    for _, twin in PAIRS:
        for name, method in methods(twin).items():
            assert inspect.signature(method).return_annotation is not inspect.Signature.empty, name
    assert get_type_hints(state.ClientState.wait_for)["return"].__name__ == "StateChange"
