"""Provider of the components in the Python files of a folder."""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from carrel.compat.fastmcp.decorators import PromptMeta, ResourceMeta, ToolMeta, get_fastmcp_meta
from carrel.compat.fastmcp.prompts.prompt import Prompt
from carrel.compat.fastmcp.resources.resource import Resource
from carrel.compat.fastmcp.resources.template import ResourceTemplate
from carrel.compat.fastmcp.server.providers.local_provider import LocalProvider
from carrel.compat.fastmcp.tools.tool import Tool
from carrel.compat.fastmcp.utilities.versions import VersionSpec
from carrel.log import Log

__all__ = ["FileSystemProvider"]

logger = Log("fastmcp.server.providers.filesystem")
COMPONENTS = (Tool, Resource, ResourceTemplate, Prompt)
MARKS = (ToolMeta, ResourceMeta, PromptMeta)


class FileSystemProvider(LocalProvider):
    """Provider of components and marked functions of a file, or of all files below a folder.

    With ``reload``, the files are imported again for each request. A file that fails is logged and left out.
    """

    def __init__(self, root: str | Path = ".", reload: bool = False) -> None:
        super().__init__(on_duplicate="replace")
        self._root = Path(root).resolve()
        self._reload = reload
        self._warned: dict[Path, float] = {}
        self._lock = asyncio.Lock()
        self._load()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(root={self._root!r}, reload={self._reload})"

    def _load(self) -> None:
        if not self._root.exists():
            logger.warning("FileSystemProvider root does not exist: %s", self._root)
        self._components.clear()
        for path in _files(self._root):
            try:
                module = _imported(path, self._root)
            except Exception as error:
                changed = path.stat().st_mtime
                if self._warned.get(path) != changed:
                    logger.warning("Failed to import %s: %s", path, error)
                    self._warned[path] = changed
                continue
            self._warned.pop(path, None)
            for name in dir(module):
                if not name.startswith("_"):
                    self._add_found(getattr(module, name, None), path)

    def _add_found(self, found: Any, path: Path) -> None:
        mark = get_fastmcp_meta(found)
        try:
            if isinstance(found, COMPONENTS):
                self._add_component(found)
            elif isinstance(mark, ToolMeta):
                self.add_tool(found)
            elif isinstance(mark, ResourceMeta):
                self.add_resource(found)
            elif isinstance(mark, PromptMeta):
                self.add_prompt(found)
        except Exception:
            logger.exception("Failed to register %r from %s", found, path)

    async def _loaded(self) -> None:
        if self._reload:
            async with self._lock:
                await asyncio.to_thread(self._load)

    async def _list_tools(self) -> Sequence[Tool]:
        await self._loaded()
        return await super()._list_tools()

    async def _list_resources(self) -> Sequence[Resource]:
        await self._loaded()
        return await super()._list_resources()

    async def _list_resource_templates(self) -> Sequence[ResourceTemplate]:
        await self._loaded()
        return await super()._list_resource_templates()

    async def _list_prompts(self) -> Sequence[Prompt]:
        await self._loaded()
        return await super()._list_prompts()

    async def _newest(self, kind: str, identifier: str, version: VersionSpec | None) -> Any:
        if kind != "resource_template":  # which are listed
            await self._loaded()
        return await super()._newest(kind, identifier, version)


def _files(root: Path) -> list[Path]:
    if root.is_file():
        return [root] if root.suffix == ".py" and root.name != "__init__.py" else []
    found = root.rglob("*.py") if root.is_dir() else ()
    return sorted(path for path in found if path.name != "__init__.py" and "__pycache__" not in path.parts)


def _imported(path: Path, root: Path) -> ModuleType:
    """Import a file: as a module of its package, if its folder is one, or by itself."""
    package = None
    folder = path.parent
    while (folder / "__init__.py").exists() and (folder == root or root in folder.parents):
        package, folder = folder, folder.parent
    places = [str(folder)]
    name = ".".join(path.relative_to(folder).with_suffix("").parts)
    if package is None:
        name = f"{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    sys.path[:0] = places
    try:
        if package is not None:
            top = sys.modules.get(package.name)
            if top is not None and str(package) not in getattr(top, "__path__", ()):
                raise ImportError(f"another package has the name {package.name}")
            sys.modules.pop(name, None)
            return import_module(name)
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(places[0])
