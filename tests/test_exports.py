"""What the package offers: ``__all__`` tells the truth, and everything in it is described."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from types import ModuleType
from typing import get_type_hints

import pytest

import carrel

ROOMS = ("errors", "wire", "protocol", "server", "client", "transports")


def modules() -> list[str]:
    """The modules of the library proper, by name."""
    found = ["carrel"]
    for room in ROOMS:
        module = importlib.import_module(f"carrel.{room}")
        found.append(module.__name__)
        if hasattr(module, "__path__"):
            found += [part.name for part in pkgutil.walk_packages(module.__path__, f"{module.__name__}.")]
    return [name for name in found if name != "carrel.transports.server.uvicorn"]  # needs its extra


NAMES = modules()
EXPORTING = [name for name in NAMES if hasattr(importlib.import_module(name), "__all__")]


def public(module: ModuleType) -> set[str]:
    """The names that a module defines itself, without those that begin with an underscore."""
    return {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    }


def test_the_package_exports_its_public_names_and_no_others() -> None:
    offered = {name for name, value in vars(carrel).items() if not name.startswith("_") and not inspect.ismodule(value)}
    assert set(carrel.__all__) == offered | {"__version__", "Client"}  # which is loaded when somebody wants it


def test_a_star_import_gives_what_is_promised() -> None:
    found: dict[str, object] = {}
    exec("from carrel import *", found)
    assert set(carrel.__all__) <= set(found)


def test_every_exported_name_is_there_once_and_in_order() -> None:
    for name in EXPORTING:
        module = importlib.import_module(name)
        exported = list(module.__all__)
        assert all(hasattr(module, item) for item in exported), name
        assert len(set(exported)) == len(exported), name
        assert not any(item.startswith("_") for item in exported if item != "__version__"), name


def test_every_module_says_what_it_is() -> None:
    assert [name for name in NAMES if not (importlib.import_module(name).__doc__ or "").strip()] == []


def test_every_exported_name_is_described() -> None:
    assert [f"{name}.{item}" for name in EXPORTING for item in mute(name)] == []


def mute(name: str) -> Iterator[str]:
    """Yield the names that a module exports without describing them."""
    module = importlib.import_module(name)
    for item in module.__all__:
        value = getattr(module, item)
        if not (getattr(value, "__module__", None) or name).startswith("carrel"):
            continue  # another package describes it
        described = vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__
        if (inspect.isclass(value) or inspect.isfunction(value)) and not (described or "").strip():
            yield item


@pytest.mark.parametrize(
    "kind", [getattr(carrel, name) for name in carrel.__all__ if inspect.isclass(getattr(carrel, name))]
)
def test_every_public_method_is_described(kind: type) -> None:
    methods = {
        name: getattr(value, "fget", value)
        for name, value in vars(kind).items()
        if not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, property))
    }
    assert [name for name, method in methods.items() if not method.__doc__] == []


@pytest.mark.parametrize("kind", [carrel.Server, carrel.Context])
def test_every_public_method_is_typed(kind: type) -> None:
    for name, method in vars(kind).items():
        if inspect.isfunction(method) and not name.startswith("_"):
            signature = inspect.signature(method)
            assert signature.return_annotation is not inspect.Signature.empty, name
            for parameter in list(signature.parameters.values())[1:]:
                assert parameter.annotation is not inspect.Parameter.empty, f"{name}: {parameter.name}"


PUBLIC = {
    "Client": """
        call_tool capabilities change_roots close complete get_prompt instructions list_directory list_prompts
        list_resource_templates list_resources list_tools ping read_resource revision server set_log_level skills state
        tasks watch
    """,
    "Context": """
        alert allows cancelled capabilities client critical debug detach elicit elicit_url elicitation_completed
        emergency error headers info list_changed list_roots log meta notice once pause_stream principal read_resource
        report_progress request_id revision sample session shows_pages state task warning
    """,
    "Server": """
        add_provider add_resource_tools add_search asgi capabilities dependency_overrides disable enable endpoint extend
        gate limits list_changed middleware middlewares name on_shutdown on_startup prompt prompts remove_provider
        resource resources route run run_async share_state skills state tool tools ui
    """,
}


@pytest.mark.parametrize("name", PUBLIC)
def test_an_object_of_users_has_what_is_for_users_and_nothing_else(name: str) -> None:
    kind = getattr(carrel, name)
    of_objects = vars(carrel.Server("s")) if name == "Server" else getattr(kind, "__slots__", ())
    found = {item for item in (*dir(kind), *of_objects) if not item.startswith("_")}
    assert sorted(found) == PUBLIC[name].split()


@pytest.mark.parametrize("name", [name for name in NAMES if ".wire." in name])
def test_the_types_of_the_wire_can_be_resolved(name: str) -> None:
    module = importlib.import_module(name)
    for item in public(module):
        if inspect.isclass(getattr(module, item)):
            assert get_type_hints(getattr(module, item)) is not None


def test_every_error_is_in_the_tree_and_the_tree_is_drawn() -> None:
    from carrel import errors

    kinds = [getattr(errors, name) for name in errors.__all__]
    assert all(issubclass(kind, errors.MCPError) for kind in kinds)
    defined = {name for name in public(errors) if inspect.isclass(getattr(errors, name))}
    assert set(errors.__all__) == defined
    assert all(name in (errors.__doc__ or "") for name in errors.__all__)
