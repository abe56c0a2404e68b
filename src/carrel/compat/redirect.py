"""Redirection of imports: ``mcp`` and its modules resolve to ``carrel.compat.mcp``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

__all__ = ["NotMirroredError", "redirect_imports"]

PACKAGE = "carrel.compat"
MIRRORED = ("fastmcp", "mcp")

#: Modules of which another one has all names, as in other versions of the package.
MOVED = {
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
    "fastmcp.server.transforms.search.base": "fastmcp.server.transforms.search",
    "fastmcp.server.transforms.search.bm25": "fastmcp.server.transforms.search",
    "fastmcp.server.transforms.search.regex": "fastmcp.server.transforms.search",
    "fastmcp.tools.base": "fastmcp.tools.tool",
    "fastmcp.tools.function_tool": "fastmcp.tools.tool",
}

#: Modules that are not mirrored, and what to use in their place.
INSTEAD = {
    "fastmcp.cli": "the command is `carrel`",
    "fastmcp.client.sampling.handlers": "give Client(sampling_handler=) a function",
    "fastmcp.experimental": "leave it out: CodeMode runs code of models in a sandbox, which Carrel does not have",
    "fastmcp.apps.app": "use carrel.Server (docs/apps.md)",
    "fastmcp.server.auth": "use carrel.Server with carrel.security.Authorization (docs/authorization.md)",
    "fastmcp.server.middleware.authorization": "use carrel.Server with carrel.security (docs/access.md)",
    "fastmcp.server.extensions": "use carrel.Server",
    "fastmcp.server.sessions": "use the state of carrel.Server (docs/scale.md)",
    "fastmcp.server.tasks": "use carrel.Server and @app.tool(task=...)",
    "mcp.cli": "the command is `carrel`",
    "mcp.client.auth": "use carrel.Client with carrel.security.client (docs/authorization.md)",
    "mcp.client.experimental": "use carrel.Client, whose calls follow tasks by themselves",
    "mcp.client.session_group": "use carrel.host",
    "mcp.client.websocket": "use Streamable HTTP",
    "mcp.server.auth": "use carrel.Server with carrel.security.Authorization (docs/authorization.md)",
    "mcp.server.experimental": "use carrel.Server and @app.tool(task=...)",
    "mcp.server.websocket": "use Streamable HTTP",
    "mcp.shared.auth": "use carrel.security (docs/authorization.md)",
    "mcp.shared.experimental": "use carrel.Server and @app.tool(task=...)",
}


class NotMirroredError(ModuleNotFoundError):
    """A module of another package that ``carrel.compat`` does not have. The message says what to use instead."""

    def __init__(self, name: str) -> None:
        parts = name.split(".")
        known = (INSTEAD.get(".".join(parts[:length])) for length in range(len(parts), 1, -1))
        hint = next((each for each in known if each), "run the program without --compat, with the package itself")
        super().__init__(f"{name} is not mirrored by {PACKAGE}: {hint}", name=name)


class Alias(Loader):
    """Loader that gives a module of ``carrel.compat`` under another name: one module object, two names."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(self._target)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # the import system has set the alias's spec


class Redirection(MetaPathFinder):
    """Finder for the modules of ``mcp`` and ``fastmcp``."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] not in MIRRORED:
            return None
        name = f"{PACKAGE}.{MOVED.get(fullname, fullname)}"
        real = find_spec(name) if _exists(name) else None
        if real is None:
            raise NotMirroredError(fullname)
        return ModuleSpec(fullname, Alias(name), is_package=real.submodule_search_locations is not None)


def _exists(name: str) -> bool:
    """Return whether the parent package of a module exists."""
    try:
        return find_spec(name.rpartition(".")[0]) is not None
    except ModuleNotFoundError:
        return False


def redirect_imports() -> None:
    """Redirect imports of ``mcp`` and its modules, from now on. Does nothing the second time.

    Raises:
        ImportError: some of ``mcp`` was imported before.
    """
    if any(isinstance(finder, Redirection) for finder in sys.meta_path):
        return
    early = [name for name in sys.modules if name.partition(".")[0] in MIRRORED]
    if early:
        raise ImportError(f"{early[0]} is imported already: redirect imports before")
    sys.meta_path.insert(0, Redirection())
