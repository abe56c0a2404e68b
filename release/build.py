"""Builds the files of a release in ``dist/``: wheel, sdist, ``.mcpb`` bundle, notices and ``server.json``.

    python release/build.py [OWNER/NAME]

``OWNER/NAME`` is the GitHub repository of the release (default: ``$GITHUB_REPOSITORY``). ``server.json`` is written
only if the repository is known, since the name and the URL of the bundle depend on it.

The bundle (https://github.com/modelcontextprotocol/mcpb, manifest 0.4, server type ``uv``) contains the wheel, so that
it can be installed before, and independently of, a release on PyPI. ``server.json`` follows the schema of the MCP
registry.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
BUNDLE = ROOT / "release" / "mcpb"
SERVER_SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
#: Every entry of the bundle has this time, so that the same content gives the same hash.
ZIP_TIME = (2020, 1, 1, 0, 0, 0)


def build(repository: str | None, dist: Path = DIST) -> list[Path]:
    """Build everything into ``dist`` and return the files.

    Raises:
        subprocess.CalledProcessError: hatchling failed.
        ValueError: the manifest of the bundle and pyproject.toml name different versions.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    dist.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-m", "hatchling", "build", "--directory", str(dist)], cwd=ROOT, check=True)
    wheel = dist / f"carrel-{project['version']}-py3-none-any.whl"
    bundle = build_bundle(project, wheel, dist)
    built = [wheel, dist / f"carrel-{project['version']}.tar.gz", bundle, write_notices(dist)]
    if repository:
        built.append(write_server_json(project, bundle, repository, dist))
    return built


def build_bundle(project: dict[str, str], wheel: Path, dist: Path) -> Path:
    """Write the ``.mcpb`` bundle: manifest, entry point, the wheel, and a pyproject.toml that installs it."""
    manifest = json.loads((BUNDLE / "manifest.json").read_text())
    if manifest["version"] != project["version"]:
        raise ValueError(f"mcpb/manifest.json has version {manifest['version']}, pyproject.toml {project['version']}")
    pyproject = (
        f'[project]\nname = "carrel-bundle"\nversion = "{project["version"]}"\n'
        f'requires-python = "{project["requires-python"]}"\ndependencies = ["carrel[serve]"]\n\n'
        f'[tool.uv]\npackage = false\n\n[tool.uv.sources]\ncarrel = {{ path = "{wheel.name}" }}\n'
    )
    target = dist / f"carrel-{project['version']}.mcpb"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in (
            ("manifest.json", (BUNDLE / "manifest.json").read_bytes()),
            ("pyproject.toml", pyproject.encode()),
            ("src/server.py", (BUNDLE / "src" / "server.py").read_bytes()),
            (wheel.name, wheel.read_bytes()),
            ("LICENSE", (ROOT / "LICENSE").read_bytes()),
        ):
            archive.writestr(zipfile.ZipInfo(name, ZIP_TIME), content)
    return target


def dependencies() -> dict[str, metadata.Distribution]:
    """Return the installed distributions that ``carrel[all]`` needs here, by normalized name, without Carrel itself."""
    found: dict[str, metadata.Distribution] = {}
    pending = [(Requirement("carrel[all]"))]
    seen: set[str] = set()
    while pending:
        requirement = pending.pop()
        if str(requirement) in seen:
            continue
        seen.add(str(requirement))
        try:
            distribution = metadata.distribution(requirement.name)
        except metadata.PackageNotFoundError:
            continue  # an extra that is not installed here, or not for this platform
        found[canonicalize_name(requirement.name)] = distribution
        for line in distribution.requires or ():
            needed = Requirement(line)
            extras = requirement.extras or {""}
            if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in extras):
                pending.append(needed)
    del found["carrel"]
    return dict(sorted(found.items()))


def licence(distribution: metadata.Distribution) -> str:
    """Return the licence that a distribution declares: its SPDX expression, else its classifiers, else its text."""
    declared = distribution.metadata
    expression = declared.get("License-Expression")
    classifiers = declared.get_all("Classifier", [])
    names = [line.rpartition(" :: ")[2] for line in classifiers if line.startswith("License :: OSI Approved :: ")]
    return expression or ", ".join(names) or (declared.get("License") or "").split("\n")[0] or "unknown"


def write_notices(dist: Path) -> Path:
    """Write the licence texts of everything that ``carrel[all]`` installs, as a container image must carry them."""
    parts = []
    for name, distribution in dependencies().items():
        texts = [
            file.read_text().strip()
            for file in distribution.files or ()
            if re.match(r"(licen[cs]e|copying|notice)", file.name, re.IGNORECASE) and ".dist-info" in str(file)
        ]
        title = f"{name} {distribution.version} ({licence(distribution)})"
        parts.append("\n\n".join([f"{title}\n{'=' * len(title)}", *texts]))
    target = dist / "THIRD-PARTY-NOTICES.txt"
    target.write_text("\n\n\n".join(parts) + "\n")
    return target


def write_server_json(project: dict[str, str], bundle: Path, repository: str, dist: Path) -> Path:
    """Write ``server.json``, the entry of the MCP registry, for a release of the repository ``OWNER/NAME``.

    It lists the bundle, which the registry verifies by its hash. The package on PyPI could be listed too, once the
    README carries the registry's ``mcp-name`` line of the owner.
    """
    owner = repository.partition("/")[0].lower()
    version = project["version"]
    server = {
        "$schema": SERVER_SCHEMA,
        "name": f"io.github.{owner}/carrel",
        "description": "Share folders with AI applications: every file is a resource, live and read-only.",
        "version": version,
        "repository": {"url": f"https://github.com/{repository}", "source": "github"},
        "packages": [
            {
                "registryType": "mcpb",
                "identifier": f"https://github.com/{repository}/releases/download/v{version}/{bundle.name}",
                "version": version,
                "fileSha256": hashlib.sha256(bundle.read_bytes()).hexdigest(),
                "transport": {"type": "stdio"},
            }
        ],
    }
    target = dist / "server.json"
    target.write_text(json.dumps(server, indent=2) + "\n")
    return target


if __name__ == "__main__":
    for path in build(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("GITHUB_REPOSITORY")):
        print(path.relative_to(ROOT))
