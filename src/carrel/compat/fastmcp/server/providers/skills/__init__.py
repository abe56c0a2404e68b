"""Providers of skills: folders with a ``SKILL.md`` and more files, as resources below ``skill://NAME/``."""

from __future__ import annotations

import hashlib
import json
import mimetypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from carrel.compat.fastmcp.resources.resource import Resource
from carrel.compat.fastmcp.resources.template import ResourceTemplate
from carrel.compat.fastmcp.server.providers.aggregate import AggregateProvider
from carrel.compat.fastmcp.server.providers.base import Provider
from carrel.log import Log

__all__ = [
    "ClaudeSkillsProvider",
    "CodexSkillsProvider",
    "CopilotSkillsProvider",
    "CursorSkillsProvider",
    "GeminiSkillsProvider",
    "GooseSkillsProvider",
    "OpenCodeSkillsProvider",
    "SkillProvider",
    "SkillsDirectoryProvider",
    "SkillsProvider",
    "VSCodeSkillsProvider",
]

logger = Log("fastmcp.server.providers.skills")
BINARY = "application/octet-stream"
MANIFEST = "_manifest"


@dataclass
class SkillInfo:
    """A skill: its folder, and what its main file says about it."""

    name: str
    description: str
    path: Path
    main_file: str
    frontmatter: dict[str, Any] = field(default_factory=dict)

    @property
    def files(self) -> list[Path]:
        """Files of the folder, without links to files outside of it."""
        found = sorted(each for each in self.path.rglob("*") if each.is_file())
        return [each for each in found if each.resolve().is_relative_to(self.path)]

    def read(self, name: str) -> str | bytes:
        """Return the contents of a file, as text if it is text.

        Raises:
            ValueError: the file is outside of the folder.
            FileNotFoundError: there is no such file.
        """
        path = (self.path / name).resolve()
        if not path.is_relative_to(self.path):
            raise ValueError(f"Path {name} escapes skill directory")
        if not path.is_file():
            raise FileNotFoundError(f"File not found: {name}")
        return path.read_text("utf-8") if _mime_type(name).startswith("text/") else path.read_bytes()

    def manifest(self) -> str:
        """Return the list of files, with sizes and hashes, as JSON."""
        files = [
            {
                "path": each.relative_to(self.path).as_posix(),
                "size": each.stat().st_size,
                "hash": f"sha256:{hashlib.sha256(each.read_bytes()).hexdigest()}",
            }
            for each in self.files
        ]
        return json.dumps({"skill": self.name, "files": files}, indent=2)


def _mime_type(name: str) -> str:
    return "text/markdown" if name.endswith(".md") else mimetypes.guess_type(name)[0] or BINARY


def _frontmatter(text: str) -> tuple[dict[str, Any], str]:
    """Return the fields between the first lines ``---`` of a file, and the text after them."""
    head, separator, body = text.removeprefix("---").partition("\n---")
    if not text.startswith("---") or not separator:
        return {}, text
    fields: dict[str, Any] = {}
    for line in head.strip().splitlines():
        name, colon, value = line.partition(":")
        value = value.strip()
        if not colon:
            continue
        if value.startswith("[") and value.endswith("]"):
            fields[name.strip()] = [each.strip().strip("\"'") for each in value[1:-1].split(",") if each.strip()]
        else:
            quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
            fields[name.strip()] = value[1:-1] if quoted else value
    return fields, body.lstrip("-").lstrip()


class SkillResource(Resource):
    """File of a skill, or its manifest."""

    KEY_PREFIX: ClassVar[str] = "resource"

    skill_info: SkillInfo = Field(exclude=True)
    file_path: str
    is_manifest: bool = False

    def get_meta(self) -> dict[str, Any]:
        """Return ``_meta`` with the name of the skill."""
        found = super().get_meta()
        found["fastmcp"]["skill"] = {"name": self.skill_info.name}
        if self.is_manifest or self.file_path == self.skill_info.main_file:
            found["fastmcp"]["skill"]["is_manifest"] = self.is_manifest
        return found

    async def read(self) -> str | bytes:
        """Read the file."""
        return self.skill_info.manifest() if self.is_manifest else self.skill_info.read(self.file_path)


class SkillFileTemplate(ResourceTemplate):
    """Template of the files of a skill."""

    KEY_PREFIX: ClassVar[str] = "template"

    skill_info: SkillInfo = Field(exclude=True)

    async def read(self, arguments: dict[str, Any]) -> str | bytes:
        """Read the file."""
        return self.skill_info.read(arguments.get("path", ""))


class SkillProvider(Provider):
    """Provider of one skill. Files besides the main one are resources, or found with a template.

    Raises:
        FileNotFoundError: the folder or its main file does not exist.
    """

    def __init__(
        self,
        skill_path: str | Path,
        main_file_name: str = "SKILL.md",
        supporting_files: Literal["template", "resources"] = "template",
    ) -> None:
        super().__init__()
        path = Path(skill_path).resolve()
        if not path.exists():
            raise FileNotFoundError(f"Skill directory not found: {path}")
        main = path / main_file_name
        if not main.is_file():
            raise FileNotFoundError(f"Main skill file not found: {main}. Expected {main_file_name} in {path}")
        fields, body = _frontmatter(main.read_text("utf-8"))
        first = next((line.strip() for line in body.splitlines() if line.strip()), "")
        told = fields.get("description") or first.lstrip("#").strip()[:200] or f"Skill: {path.name}"
        self.skill_info = SkillInfo(path.name, told, path, main_file_name, fields)
        self._supporting_files = supporting_files

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.skill_info.path)!r}, supporting_files={self._supporting_files!r})"

    def _resource(self, path: str, description: str, mime_type: str, *, manifest: bool = False) -> SkillResource:
        name = f"{self.skill_info.name}/{path}"
        uri: Any = f"skill://{name}"
        return SkillResource(
            uri=uri,
            name=name,
            description=description,
            mime_type=mime_type,
            skill_info=self.skill_info,
            file_path=path,
            is_manifest=manifest,
        )

    async def _list_resources(self) -> Sequence[Any]:
        skill = self.skill_info
        found = [
            self._resource(skill.main_file, skill.description, "text/markdown"),
            self._resource(MANIFEST, f"File listing for {skill.name}", "application/json", manifest=True),
        ]
        if self._supporting_files == "resources":
            names = [each.relative_to(skill.path).as_posix() for each in skill.files]
            others = [name for name in names if name != skill.main_file]
            found += [self._resource(name, f"File from {skill.name} skill", _mime_type(name)) for name in others]
        return found

    async def _list_resource_templates(self) -> Sequence[Any]:
        if self._supporting_files == "resources":
            return []
        skill = self.skill_info
        parameters = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
        return [
            SkillFileTemplate(
                uri_template=f"skill://{skill.name}/{{path*}}",
                name=f"{skill.name}_files",
                description=f"Access files within {skill.name}",
                mime_type=BINARY,
                parameters=parameters,
                skill_info=skill,
            )
        ]


class SkillsDirectoryProvider(AggregateProvider):
    """Provider of all skills in some folders. The first skill of a name counts."""

    def __init__(
        self,
        roots: str | Path | Sequence[str | Path],
        reload: bool = False,
        main_file_name: str = "SKILL.md",
        supporting_files: Literal["template", "resources"] = "template",
    ) -> None:
        super().__init__()
        given = [roots] if isinstance(roots, str | Path) else roots
        self._roots = [Path(each).expanduser().resolve() for each in given]
        self._reload, self._main, self._supporting_files = reload, main_file_name, supporting_files
        self._find()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(roots={self._roots!r}, reload={self._reload})"

    def _find(self) -> None:
        found: dict[str, Provider] = {}
        for root in self._roots:
            for folder in root.iterdir() if root.is_dir() else ():
                if (folder / self._main).is_file() and folder.name not in found:
                    try:
                        found[folder.name] = SkillProvider(folder, self._main, self._supporting_files)
                    except (OSError, ValueError) as error:
                        logger.warning("Skipping the skill %s: %s", folder, error)
        self.providers = list(found.values())

    async def _collected(self, method: str, *arguments: Any) -> list[Any]:
        if self._reload:
            self._find()
        return await super()._collected(method, *arguments)


SkillsProvider = SkillsDirectoryProvider


class VendorSkillsProvider(SkillsDirectoryProvider):
    """Provider of the skills in the usual folder of an application."""

    folders: ClassVar[tuple[str, ...]] = ()

    def __init__(self, reload: bool = False, supporting_files: Literal["template", "resources"] = "template") -> None:
        super().__init__([*self.folders], reload, supporting_files=supporting_files)


#: Usual folders of applications, by the name of the provider.
FOLDERS = {
    "Claude": ("~/.claude/skills",),
    "Codex": ("/etc/codex/skills", "~/.codex/skills"),
    "Copilot": ("~/.copilot/skills",),
    "Cursor": ("~/.cursor/skills",),
    "Gemini": ("~/.gemini/skills",),
    "Goose": ("~/.config/agents/skills",),
    "OpenCode": ("~/.config/opencode/skills",),
    "VSCode": ("~/.copilot/skills",),
}


def _provider(name: str) -> Any:
    documentation = f"Provider of the skills in the usual folder of {name}."
    return type(f"{name}SkillsProvider", (VendorSkillsProvider,), {"folders": FOLDERS[name], "__doc__": documentation})


ClaudeSkillsProvider = _provider("Claude")
CodexSkillsProvider = _provider("Codex")
CopilotSkillsProvider = _provider("Copilot")
CursorSkillsProvider = _provider("Cursor")
GeminiSkillsProvider = _provider("Gemini")
GooseSkillsProvider = _provider("Goose")
OpenCodeSkillsProvider = _provider("OpenCode")
VSCodeSkillsProvider = _provider("VSCode")
