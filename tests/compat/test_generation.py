"""``carrel.compat.generation``: for which version of ``mcp`` a program was written."""

from __future__ import annotations

from pathlib import Path

import pytest

from carrel.compat.generation import find_fastmcp, find_generation, generation_of_source

HTTP = "from mcp.client.streamable_http import streamable_http_client\nasync def main():\n "


@pytest.mark.parametrize(
    ("source", "generation"),
    [
        ("from mcp.server.fastmcp import FastMCP", 1),
        ("from mcp import McpError", 1),
        ("from mcp.server import Server\n@app.list_tools()\nasync def f(): ...", 1),
        ("import mcp.types as types\ntypes.Tool(name='a', inputSchema={})", 1),
        ("from mcp.server.mcpserver import MCPServer", 2),
        ("from mcp.server import MCPServer", 2),
        ("from mcp import Client", 2),
        ("import mcp_types", 2),
        ("from mcp.server.lowlevel import Server\napp = Server('a', on_list_tools=f)", 2),
        ("from mcp import types\ntypes.Tool(name='a', input_schema={})", 2),
        (f"{HTTP}async with streamable_http_client(u) as (a, b): ...", 2),
        (f"{HTTP}async with streamable_http_client(u) as (a, b, _): ...", 1),
        (f"{HTTP}async with streamable_http_client(u) as (a, b, *_): ...", None),
        ("from mcp import ClientSession, StdioServerParameters", None),
        ("input_schema = 1", None),
        ("from mcp import", None),
    ],
)
def test_imports_and_names_of_attributes_tell(source: str, generation: int | None) -> None:
    assert generation_of_source(source) == generation


@pytest.mark.parametrize(
    ("requirement", "generation"),
    [
        ("mcp>=2", 2),
        ("mcp[cli] ~= 2.1", 2),
        ("mcp<2", 1),
        ("mcp==1.20", 1),
        ("mcp>=1.2", None),
        ("fastmcp>=4", 2),
        ("fastmcp<4", 1),
    ],
)
def test_inline_metadata_and_the_project_tell(requirement: str, generation: int | None, tmp_path: Path) -> None:
    script, plain = tmp_path / "script.py", tmp_path / "inner" / "plain.py"
    script.write_text(f'# /// script\n# dependencies = ["{requirement}"]\n# ///\nfrom mcp import ClientSession\n')
    assert find_generation([str(script)]) == generation
    plain.parent.mkdir()
    plain.write_text("from mcp import ClientSession\n")
    (tmp_path / "pyproject.toml").write_text(f'[project]\nname = "a"\ndependencies = ["{requirement}"]\n')
    assert find_generation([str(plain)]) == generation


@pytest.mark.parametrize(
    ("requirement", "version"),
    [
        ("fastmcp<3", 2),
        ("fastmcp<2.14,>=2.10.5", 2),
        ("fastmcp==2.13.3", 2),
        ("fastmcp-slim ~= 2.12", 2),
        ("fastmcp>=2,<4", None),
        ("fastmcp>=2", None),
        ("fastmcp>=3,<4", None),
        ("mcp<2", None),
    ],
)
def test_a_requirement_of_fastmcp_2_is_found(requirement: str, version: int | None, tmp_path: Path) -> None:
    script, plain = tmp_path / "script.py", tmp_path / "inner" / "plain.py"
    script.write_text(f'# /// script\n# dependencies = ["rich", "{requirement}"]\n# ///\nfrom fastmcp import FastMCP\n')
    assert find_fastmcp([str(script)]) == version
    plain.parent.mkdir()
    plain.write_text("from fastmcp import FastMCP\n")
    (tmp_path / "pyproject.toml").write_text(f'[project]\nname = "a"\ndependencies = ["{requirement}"]\n')
    assert find_fastmcp([str(plain)]) == version


@pytest.mark.parametrize(("requirement", "generation"), [("mcp<2", 1), ("mcp>=2", 2), ("mcp>=1", 2)])
def test_the_package_of_a_command_tells(
    requirement: str, generation: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts, packages = tmp_path / "bin", tmp_path / "packages"
    for folder in (scripts, packages / "some_server", packages / "some_server-1.dist-info"):
        folder.mkdir(parents=True)
    (scripts / "server-command").write_text("#!python\nimport sys\nfrom some_server import main\nsys.exit(main())\n")
    (packages / "some_server" / "__init__.py").write_text("from some_server.app import main\n")
    (packages / "some_server" / "app.py").write_text("from mcp.server import MCPServer\n")
    metadata = f"Metadata-Version: 2.1\nName: some-server\nVersion: 1\nRequires-Dist: {requirement}\n"
    (packages / "some_server-1.dist-info" / "METADATA").write_text(metadata)
    monkeypatch.setattr("sys.executable", str(scripts / "python"))
    monkeypatch.syspath_prepend(packages)
    assert find_generation([str(scripts / "server-command")]) == generation


def test_modules_beside_a_program_tell_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text("from package.app import main\nmain()\n")
    (package / "app.py").write_text("from .server import main\n")
    (package / "server.py").write_text("from mcp.server import MCPServer\n")
    (tmp_path / "start.py").write_text("import package.app\n")
    monkeypatch.chdir(tmp_path)
    assert find_generation([str(tmp_path / "start.py")]) == 2
    assert find_generation([str(package)]) == 2
    assert find_generation(["-m", "package"]) == 2
    assert find_generation(["-m", "package.server"]) == 2
    assert find_generation(["-m", "no.such.module"]) is None
