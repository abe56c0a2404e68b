"""release/build.py: what a release consists of, built once, installed in clean environments, and used."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from carrel import Client
from carrel.cli.server import serve

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2000)]

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "examples" / "library"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
UV = Path(sys.executable).with_name("uv")

#: Dependencies whose licence asks for the publication of changes to their own files only.
WEAK_COPYLEFT = ("asyncssh", "certifi", "shtab", "tld")
#: Licences that ask for nothing but their own text. Anything else is looked at by a person first.
PERMISSIVE = (
    "0BSD", "Apache", "BSD", "MIT", "ISC", "PSF", "Python Software Foundation", "Unlicense", "Zlib",
)  # fmt: skip


@pytest.fixture(scope="module")
def build() -> Iterator[ModuleType]:
    sys.path.insert(0, str(ROOT / "release"))
    try:
        import build as module

        yield module
    finally:
        sys.path.remove(str(ROOT / "release"))


@pytest.fixture(scope="module")
def dist(build: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    build.build("Someone/carrel", folder)
    return folder


def run(*command: str | Path, cwd: Path | None = None) -> str:
    environment = {**os.environ, "UV_PYTHON": sys.executable, "VIRTUAL_ENV": ""}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, cwd=cwd, env=environment, timeout=900
    )
    assert done.returncode == 0, (
        f"{command} ended with {done.returncode}:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    )
    return done.stdout


@pytest.fixture(scope="module")
def installed(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clean environment with the wheel and everything that ``carrel[all]`` names."""
    home = tmp_path_factory.mktemp("installed")
    run(UV, "venv", "--quiet", home)
    run(UV, "pip", "install", "--quiet", "--python", home, f"{wheel(dist)}[all]")
    return home / "bin"


def wheel(dist: Path) -> Path:
    (found,) = dist.glob("*.whl")
    return found


async def listed(command: list[str]) -> set[str]:
    async with Client(command) as client:
        return {resource.name async for resource in client.list_resources()}


def test_an_installed_wheel_serves_a_folder_on_stdio(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("hello")

    assert run(installed / "carrel", "--version", cwd=tmp_path) == f"carrel {PROJECT['version']}\n"
    assert asyncio.run(listed([str(installed / "carrel"), "serve", str(tmp_path)])) >= {"note.txt"}


def test_an_installed_wheel_needs_nothing_but_its_two_dependencies(dist: Path, tmp_path: Path) -> None:
    run(UV, "venv", "--quiet", tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    run(UV, "pip", "install", "--quiet", "--python", python, wheel(dist))
    (tmp_path / "server.py").write_text(
        'from carrel import Server\n\napp = Server("x")\n\n\n@app.resource("note://one")\ndef one() -> str:\n'
        '    return "1"\n\n\napp.run()\n'
    )

    names = json.loads(run(UV, "pip", "list", "--quiet", "--format", "json", "--python", python))
    assert {package["name"] for package in names} == {"carrel", "msgspec", "jsonschema-rs"}
    assert asyncio.run(listed([str(python), str(tmp_path / "server.py")])) == {"one"}


def test_the_wheel_carries_the_typing_marker_the_licence_and_every_module(dist: Path) -> None:
    with zipfile.ZipFile(wheel(dist)) as archive:
        names = set(archive.namelist())
    modules = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").rglob("*.py")}

    assert modules <= names
    assert "carrel/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_wheel_carries_the_built_page(dist: Path) -> None:
    with zipfile.ZipFile(wheel(dist)) as archive:
        names = archive.namelist()
        page = archive.read("carrel/studio/static/index.html").decode()
    assert re.search(r'src="/(assets/[\w.-]+\.js)"', page)[1] in [
        name.removeprefix("carrel/studio/static/") for name in names
    ]
    assert not [name for name in names if "node_modules" in name or name.startswith("ui/")]


def test_the_sdist_builds_the_same_wheel(dist: Path, tmp_path: Path) -> None:
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.iterdir()
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "--directory", tmp_path / "again", cwd=folder)

    (again,) = (tmp_path / "again").glob("*.whl")
    assert again.read_bytes() == wheel(dist).read_bytes()


def test_the_bundle_starts_as_its_manifest_says_and_shares_the_chosen_folders(dist: Path, tmp_path: Path) -> None:
    (bundle,) = dist.glob("*.mcpb")
    with zipfile.ZipFile(bundle) as archive:
        archive.extractall(tmp_path / "bundle")
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.txt").write_text(name)
    started = json.loads((tmp_path / "bundle" / "manifest.json").read_text())["server"]["mcp_config"]
    arguments: list[str] = []
    for argument in started["args"]:  # an array of the user's choice becomes as many arguments
        if argument == "${user_config.folders}":
            arguments += [str(tmp_path / "one"), str(tmp_path / "two")]
        else:
            arguments.append(argument.replace("${__dirname}", str(tmp_path / "bundle")))
    assert started["command"] == "uv"
    run(UV, "sync", "--quiet", "--directory", tmp_path / "bundle")

    assert asyncio.run(listed([str(UV), *arguments])) >= {"one.txt", "two.txt"}


def test_server_json_names_the_bundle_with_its_hash(dist: Path) -> None:
    server = json.loads((dist / "server.json").read_text())
    (package,) = server["packages"]
    (bundle,) = dist.glob("*.mcpb")

    assert server["name"] == "io.github.someone/carrel"
    assert len(server["description"]) <= 100
    assert package["identifier"].endswith(f"/Someone/carrel/releases/download/v{PROJECT['version']}/{bundle.name}")
    assert package["fileSha256"] == hashlib.sha256(bundle.read_bytes()).hexdigest()


def test_all_versions_are_the_same() -> None:
    manifest = json.loads((ROOT / "release" / "mcpb" / "manifest.json").read_text())

    assert manifest["version"] == PROJECT["version"]


def test_the_extra_all_includes_every_other_extra() -> None:
    extras = dict(PROJECT["optional-dependencies"])
    pending, included = ["all"], set()
    while pending:
        name = pending.pop()
        included.add(name)
        for line in extras[name]:
            if line.startswith("carrel["):
                pending += line.removeprefix("carrel[").rstrip("]").split(",")

    assert included == set(extras)


def test_every_dependency_has_a_permissive_licence_and_the_notices_name_it(build: ModuleType, dist: Path) -> None:
    notices = (dist / "THIRD-PARTY-NOTICES.txt").read_text()
    found = build.dependencies()

    assert {"msgspec", "jsonschema-rs", "uvicorn", "aiohttp", "watchfiles", "keyring"} <= set(found)
    # Files of these that are changed would have to be published; the output of shtab, which users install, is theirs.
    for name in WEAK_COPYLEFT:
        assert {"EPL", "MPL", "Mozilla"} & set(build.licence(found.pop(name)).replace("-", " ").split()), name
    for name, distribution in found.items():
        assert any(word in build.licence(distribution) for word in PERMISSIVE), (name, build.licence(distribution))
        assert f"{name} {distribution.version} (" in notices


def test_the_image_copies_files_that_exist_and_runs_a_command_that_parses_without_being_root() -> None:
    lines = (ROOT / "release" / "Dockerfile").read_text().splitlines()
    copied = [
        part for line in lines if line.startswith("COPY ") and "--from" not in line for part in line.split()[1:-1]
    ]
    (command,) = [json.loads(line.removeprefix("CMD ")) for line in lines if line.startswith("CMD ")]
    users = [line for line in lines if line.startswith("USER ")]

    assert copied
    assert all((ROOT / path).exists() for path in copied)
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert {line.removeprefix("!") for line in ignored if line.startswith("!")} == set(copied)
    assert users == ["USER 10001"]
    assert command[0] == "serve"
    reader = serve.parser()
    options = reader.parse_args(command[1:])
    assert (options.http, options.behind_proxy) == ("0.0.0.0:8000", True)
