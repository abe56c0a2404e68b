"""Skills of a server: their list, and downloads."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = [
    "SkillFile",
    "SkillManifest",
    "SkillSummary",
    "download_skill",
    "get_skill_manifest",
    "list_skills",
    "sync_skills",
]

SCHEME, MAIN = "skill://", "/SKILL.md"


@dataclass
class SkillSummary:
    """Entry of a list of skills."""

    name: str
    description: str
    uri: str


@dataclass
class SkillFile:
    """File of a skill."""

    path: str
    size: int
    hash: str


@dataclass
class SkillManifest:
    """Files of a skill."""

    name: str
    files: list[SkillFile]


async def list_skills(client: Any) -> list[SkillSummary]:
    """Return the skills of a server."""
    found = [(str(each.uri), each) for each in await client.list_resources()]
    return [
        SkillSummary(uri.removeprefix(SCHEME).removesuffix(MAIN), each.description or "", uri)
        for uri, each in found
        if uri.startswith(SCHEME) and uri.endswith(MAIN)
    ]


async def get_skill_manifest(client: Any, skill_name: str) -> SkillManifest:
    """Return the files of a skill.

    Raises:
        ValueError: the server has no valid manifest.
    """
    found = await client.read_resource(f"{SCHEME}{skill_name}/_manifest")
    try:
        manifest = json.loads(found[0].text)
        files = [SkillFile(each["path"], each["size"], each["hash"]) for each in manifest["files"]]
        return SkillManifest(manifest["skill"], files)
    except (IndexError, AttributeError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"Invalid manifest for skill: {skill_name}") from error


async def download_skill(client: Any, skill_name: str, target_dir: str | Path, *, overwrite: bool = False) -> Path:
    """Write the files of a skill to a folder below another one, and return it.

    Raises:
        FileExistsError: the folder exists, and ``overwrite`` is false.
        ValueError: the folder would be outside of the other one.
    """
    parent = _absolute(target_dir)
    folder = (parent / skill_name).resolve()
    if not folder.is_relative_to(parent):
        raise ValueError(f"Skill name {skill_name!r} would escape the target directory")
    if folder.exists() and not overwrite:
        raise FileExistsError(f"Skill directory already exists: {folder}. Use overwrite=True to replace.")
    manifest = await get_skill_manifest(client, skill_name)
    folder.mkdir(parents=True, exist_ok=True)
    for each in manifest.files:
        path = (folder / each.path).resolve()
        found = await client.read_resource(f"{SCHEME}{skill_name}/{each.path}") if path.is_relative_to(folder) else ()
        for contents in found[:1]:
            path.parent.mkdir(parents=True, exist_ok=True)
            text = getattr(contents, "text", None)
            path.write_bytes(base64.b64decode(contents.blob) if text is None else text.encode())
    return folder


def _absolute(path: str | Path) -> Path:
    return Path(path).expanduser().resolve()


async def sync_skills(client: Any, target_dir: str | Path, *, overwrite: bool = False) -> list[Path]:
    """Download all skills of a server. Skip existing skills."""
    found = []
    for skill in await list_skills(client):
        try:
            found.append(await download_skill(client, skill.name, target_dir, overwrite=overwrite))
        except FileExistsError:
            continue
    return found
