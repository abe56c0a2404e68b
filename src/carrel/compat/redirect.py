"""Redirection of imports: ``mcp`` 1 resolves to ``carrel.compat.mcp``, ``mcp`` 2 to ``carrel.compat.mcp2``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from carrel.compat.generation import default_generation, set_generation

__all__ = ["redirect_imports"]

PACKAGE = "carrel.compat"
#: The mirror of each package, by the generation of the program. ``mcp`` 1 has no ``mcp_types``, so there is one mirror.
MIRRORS = {
    1: {"fastmcp": f"{PACKAGE}.fastmcp", "mcp": f"{PACKAGE}.mcp", "mcp_types": f"{PACKAGE}.mcp2.types"},
    2: {"fastmcp": f"{PACKAGE}.fastmcp", "mcp": f"{PACKAGE}.mcp2", "mcp_types": f"{PACKAGE}.mcp2.types"},
}
#: Modules that both generations have in common, and modules below them.
COMMON = (
    "mcp.client.auth",
    "mcp.client.sse",
    "mcp.client.stdio",
    "mcp.server.auth",
    "mcp.server.sse",
    "mcp.server.stdio",
    "mcp.server.streamable_http",
    "mcp.server.streamable_http_manager",
    "mcp.server.transport_security",
    "mcp.shared.auth",
    "mcp.shared.auth_utils",
    "mcp.shared.tool_name_validation",
)

#: Modules of which another one has all names, as in other versions of the package.
MOVED = {
    "fastmcp.client.transports.inference": "fastmcp.client.transports.config",
    "fastmcp.client.transports.sse": "fastmcp.client.transports.http",
    "fastmcp.contrib.bulk_tool_caller.bulk_tool_caller": "fastmcp.contrib.bulk_tool_caller",
    "fastmcp.contrib.mcp_mixin.mcp_mixin": "fastmcp.contrib.mcp_mixin",
    "fastmcp.experimental.server.openapi": "fastmcp.server.providers.openapi",
    "fastmcp.prompts.base": "fastmcp.prompts.prompt",
    "fastmcp.prompts.function_prompt": "fastmcp.prompts.prompt",
    "fastmcp.resources.base": "fastmcp.resources.resource",
    "fastmcp.resources.function_resource": "fastmcp.resources.resource",
    "fastmcp.server.apps": "fastmcp.apps",
    "fastmcp.server.openapi": "fastmcp.server.providers.openapi",
    "fastmcp.server.providers.skills.claude_provider": "fastmcp.server.providers.skills",
    "fastmcp.server.providers.skills.directory_provider": "fastmcp.server.providers.skills",
    "fastmcp.server.providers.skills.skill_provider": "fastmcp.server.providers.skills",
    "fastmcp.server.providers.skills.vendor_providers": "fastmcp.server.providers.skills",
    "fastmcp.server.providers.proxy": "fastmcp.server.proxy",
    "fastmcp.server.sampling.run": "fastmcp.server.sampling",
    "fastmcp.server.sampling.sampling_tool": "fastmcp.server.sampling",
    "fastmcp.server.tasks": "fastmcp.utilities.tasks",
    "fastmcp.server.tasks.config": "fastmcp.utilities.tasks",
    "fastmcp.server.transforms.search.base": "fastmcp.server.transforms.search",
    "fastmcp.server.transforms.search.bm25": "fastmcp.server.transforms.search",
    "fastmcp.server.transforms.search.regex": "fastmcp.server.transforms.search",
    "fastmcp.tools.base": "fastmcp.tools.tool",
    "fastmcp.tools.function_tool": "fastmcp.tools.tool",
    "fastmcp.utilities.mime": "fastmcp.apps.config",
}

#: Modules of FastMCP that need only its public interface, with the modules below them. They are loaded from the
#: installed package; without it, the mirror has small ones for some of them.
BORROWED = (
    "fastmcp.apps.approval",
    "fastmcp.apps.choice",
    "fastmcp.apps.file_upload",
    "fastmcp.apps.form",
    "fastmcp.apps.generative",
    "fastmcp.client.caching",
    "fastmcp.experimental",
    "fastmcp.skills",
    "fastmcp.utilities.json_schema",
    "fastmcp.utilities.json_schema_type",
    "fastmcp.utilities.openapi",
    "fastmcp.utilities.skills",
)


class Alias(Loader):
    """Loader that gives a module of ``carrel.compat`` under another name: one module object, two names.

    ``other`` is the module of the other generation, if there is one. Import statements find its names, too.
    """

    def __init__(self, target: str, other: str | None = None) -> None:
        self._target = target
        self._other = other
        self._spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(self._target)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # the import system has set the alias's spec
        if self._other is not None:
            _add_names(module, self._other)


def _add_names(module: ModuleType, other: str) -> None:
    """Let import statements of a program find names in a module that only the other generation's module has."""
    from carrel.compat.guarded_imports import is_unconditional

    own = vars(module).get("__getattr__")

    def find(name: str) -> Any:
        missing = AttributeError(f"module {module.__name__!r} has no attribute {name!r}", name=name, obj=module)
        if own is not None:
            try:
                return own(name)
            except AttributeError as error:
                missing = error
        if name.startswith("__") or not is_unconditional(name):
            raise missing
        try:
            return getattr(import_module(other), name)
        except (AttributeError, ImportError):
            raise missing from None

    vars(module)["__getattr__"] = find


class Redirection(MetaPathFinder):
    """Finder for the modules of the mirrored packages, in the generation of the program.

    A generation that is only a default changes with the first module that only the other one has, if no module of
    ``mcp`` was imported before.
    """

    def __init__(self, generation: int, *, certain: bool) -> None:
        self.generation = generation
        self._certain = certain

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] not in MIRRORS[self.generation] or _is_beside(fullname, path):
            return None
        if _is_borrowed(fullname) and (borrowed := _installed(fullname)) is not None:
            return borrowed
        real = _find(fullname, self.generation)
        other = 3 - self.generation
        if real is None and not self._certain and not _is_used() and _find(fullname, other) is not None:
            self.generation, real = other, _find(fullname, other)
        if real is None:
            real = _of_both(fullname, other)
        if fullname != "mcp":
            self._certain = True
        others = _find(fullname, 3 - self.generation)
        loader = Alias(real.name, others.name if others is not None and others.name != real.name else None)
        return ModuleSpec(fullname, loader, is_package=real.submodule_search_locations is not None)


def _is_beside(fullname: str, path: Sequence[str] | None) -> bool:
    """Return whether a module belongs to a package in the folder of the program that has the name of a mirrored one."""
    top = fullname.partition(".")[0]
    if path is None:
        folder = Path(sys.path[0])
        return (folder / top / "__init__.py").is_file() and not any(folder.glob(f"{top}-*.dist-info"))
    parent = sys.modules.get(top)
    return parent is not None and parent.__name__ == top and PathFinder.find_spec(fullname, path) is not None


def _of_both(fullname: str, other: int) -> ModuleSpec:
    """Return a module that only the other generation has, for a program that uses both.

    Raises:
        NotMirroredError: neither generation has it, or the import is guarded, for example to detect the generation.
    """
    from carrel.compat.absent import ORIGINAL, NotMirroredError
    from carrel.compat.guarded_imports import is_unconditional

    found = _find(fullname, other)
    if found is None or not is_unconditional():
        raise NotMirroredError(fullname, "install fastmcp" if _is_borrowed(fullname) else ORIGINAL)
    return found


def _is_used() -> bool:
    return any(name.startswith("mcp.") for name in sys.modules)


def _find(fullname: str, generation: int) -> ModuleSpec | None:
    """Return the module of a mirror; None if it is not mirrored."""
    fullname = MOVED.get(fullname, fullname)
    top, dot, rest = fullname.partition(".")
    if _is_within(fullname, COMMON):
        generation = 1
    name = MIRRORS[generation][top] + dot + rest
    return find_spec(name) if _exists(name) else None


def _is_within(fullname: str, packages: Sequence[str]) -> bool:
    return any(fullname == name or fullname.startswith(f"{name}.") for name in packages)


def _is_borrowed(fullname: str) -> bool:
    """Return whether a module is loaded from the installed package."""
    return _is_within(fullname, BORROWED) and fullname not in MOVED


def _installed(fullname: str) -> ModuleSpec | None:
    """Return a module of the installed package, or None. Neither the package nor its other modules are imported."""
    parts = fullname.split(".")
    path: Sequence[str] | None = None
    for length in range(1, len(parts) + 1):
        spec = PathFinder.find_spec(".".join(parts[:length]), path)
        if spec is None:
            return None
        path = spec.submodule_search_locations
    return spec


def _exists(name: str) -> bool:
    """Return whether the parent package of a module exists."""
    try:
        return find_spec(name.rpartition(".")[0]) is not None
    except ModuleNotFoundError:
        return False


def redirect_imports(generation: int | None = None, fastmcp: int | None = None) -> None:
    """Redirect imports of ``mcp``, ``mcp_types`` and ``fastmcp``, from now on. Does nothing the second time.

    ``generation`` is the major version of ``mcp`` that the program was written for; without it, the program's first
    import that only one of them has decides. ``fastmcp`` is 2 if the program requires FastMCP 2.

    Raises:
        ImportError: one of the packages was imported before.
    """
    if any(isinstance(finder, Redirection) for finder in sys.meta_path):
        return
    early = [name for name in sys.modules if name.partition(".")[0] in MIRRORS[1]]
    if early:
        raise ImportError(f"{early[0]} is imported already: redirect imports before")
    set_generation(generation, fastmcp)
    sys.meta_path.insert(0, Redirection(generation or default_generation(), certain=generation is not None))
