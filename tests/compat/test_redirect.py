"""``carrel.compat.redirect``: which module an import of ``mcp`` gives, and what is said where there is none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from compat.comparison import run_code

REDIRECT = "from carrel.compat import redirect_imports\nredirect_imports()\n"


def test_a_redirected_module_is_the_mirrored_one_under_both_names() -> None:
    code = REDIRECT + (
        "import mcp.types, mcp.server.fastmcp as one\n"
        "import carrel.compat.mcp.server.fastmcp as two, carrel.compat.mcp.types\n"
        "from mcp.server import Server\n"
        "assert one is two and mcp.types is carrel.compat.mcp.types\n"
        "assert one.__spec__.name == 'carrel.compat.mcp.server.fastmcp'\n"
        "redirect_imports()\n"
        "print(Server.__module__)"
    )
    done = run_code(code)
    assert done.stdout == "carrel.compat.mcp.server.lowlevel.server\n", done.stderr


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        (
            "from mcp.server.websocket import websocket_server",
            "mcp.server.websocket is not mirrored by carrel.compat: use Str",
        ),
        ("import mcp.cli", "mcp.cli is not mirrored by carrel.compat: the command is `carrel`"),
        ("import mcp.nothing.here", "mcp.nothing is not mirrored by carrel.compat: run the program without --compat"),
    ],
)
def test_what_is_not_mirrored_says_at_import_what_to_use(statement: str, words: str) -> None:
    done = run_code(REDIRECT + statement)
    assert words in done.stderr.splitlines()[-1]


def test_programs_of_fastmcp_itself_come_from_the_installed_package(tmp_path: Path) -> None:
    (tmp_path / "fastmcp-4.1.2.dist-info").mkdir()
    (tmp_path / "fastmcp" / "apps").mkdir(parents=True)
    for name in ("__init__", "apps/__init__", "apps/app"):
        (tmp_path / "fastmcp" / f"{name}.py").write_text("raise AssertionError('a module of the package is loaded')")
    (tmp_path / "fastmcp" / "apps" / "choice.py").write_text(
        "from fastmcp.apps.app import FastMCPApp\nclass Choice(FastMCPApp):\n    pass\n"
    )
    code = "from fastmcp.apps.choice import Choice\nprint(Choice('a'), Choice.__base__.__module__)"
    done = run_code(f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\n{REDIRECT}{code}")
    assert done.stdout == "Choice('a') carrel.compat.fastmcp.apps.app\n", done.stderr
    done = run_code(f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\n{REDIRECT}import fastmcp.apps.form")
    assert "fastmcp.apps.form is not mirrored by carrel.compat: install fastmcp" in done.stderr


def test_helpers_come_from_the_installed_package_with_the_modules_below_them(tmp_path: Path) -> None:
    (tmp_path / "fastmcp-4.1.2.dist-info").mkdir()
    helpers = tmp_path / "fastmcp" / "utilities"
    (helpers / "openapi").mkdir(parents=True)
    for name in ("../__init__", "__init__"):
        (helpers / f"{name}.py").write_text("raise AssertionError('a module of the package is loaded')")
    (helpers / "openapi" / "__init__.py").write_text("from .models import Route")
    (helpers / "openapi" / "models.py").write_text("class Route:\n    pass\n")
    code = (
        "from fastmcp.utilities.openapi import Route\nfrom fastmcp.utilities.json_schema import compress_schema\n"
        "print(Route.__module__, compress_schema.__module__)"
    )
    done = run_code(f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\n{REDIRECT}{code}")
    assert done.stdout == "fastmcp.utilities.openapi.models carrel.compat.fastmcp.utilities.json_schema\n", done.stderr


def test_a_package_of_the_program_with_the_name_of_a_mirrored_one_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mcp" / "server").mkdir(parents=True)
    (tmp_path / "mcp" / "__init__.py").write_text("NAME = 'own'\n")
    (tmp_path / "mcp" / "server" / "__init__.py").write_text("from mcp import NAME\n")
    at = f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\n{REDIRECT}"
    done = run_code(f"{at}from mcp import NAME\nimport mcp.server\nprint(NAME, mcp.server.NAME, mcp.__file__)")
    assert done.stdout == f"own own {tmp_path / 'mcp' / '__init__.py'}\n", done.stderr
    done = run_code(f"{at}from mcp.types import Tool\nprint(Tool.__module__)")  # which the package does not have
    assert done.stdout == "carrel.compat.mcp.types\n", done.stderr
    (tmp_path / "mcp-1.30.0.dist-info").mkdir()
    done = run_code(f"{at}import mcp\nprint(mcp.__name__)")
    assert done.stdout == "carrel.compat.mcp\n", done.stderr


def test_modules_that_were_imported_before_are_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "mcp.py").write_text("")
    done = run_code(f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\nimport mcp\n{REDIRECT}")
    assert "mcp is imported already: redirect imports before" in done.stderr


def test_importing_carrel_loads_nothing_of_it() -> None:
    code = "import carrel, sys\nprint([name for name in sys.modules if 'compat' in name or 'pydantic' in name])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "[]\n"


def test_a_program_may_use_modules_that_only_one_version_has_of_both(tmp_path: Path) -> None:
    (tmp_path / "both.py").write_text(
        "from mcp.server.fastmcp import FastMCP\nfrom mcp.server.mcpserver import MCPServer\nimport mcp_types\n"
        "print(FastMCP.__module__, MCPServer.__module__, mcp_types.__name__)\n"
    )
    done = run_code(f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\n{REDIRECT}import both")
    names = (
        "carrel.compat.mcp.server.fastmcp.server carrel.compat.mcp2.server.mcpserver.server carrel.compat.mcp2.types"
    )
    assert done.stdout == f"{names}\n", done.stderr


@pytest.mark.parametrize("generation", [1, 2])
def test_a_program_may_import_names_that_only_one_version_has_of_both(tmp_path: Path, generation: int) -> None:
    (tmp_path / "both.py").write_text(
        "from mcp import (\n    McpError,\n    MCPError,\n)\n"
        "from mcp.shared.exceptions import McpError as Old, MCPError as New\n"
        "from mcp import Client\nfrom mcp.client.streamable_http import streamablehttp_client\n"
        "assert (McpError, MCPError) == (Old, New)\n"
        "try:\n    raise MCPError(-32000, 'first')\nexcept McpError as error:\n    print(error.error.message)\n"
        "import mcp, mcp.types\n"
        "print(hasattr(mcp.types, 'DiscoverResult'), getattr(mcp.types, 'Nothing', None))\n"
    )
    redirect = f"from carrel.compat import redirect_imports\nredirect_imports({generation})\n"
    done = run_code(f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\n{redirect}import both")
    assert done.stdout == f"first\n{generation == 2} None\n", done.stderr


@pytest.mark.parametrize(("generation", "name"), [(1, "McpError"), (2, "MCPError")])
def test_a_guarded_import_of_a_name_tells_a_program_which_version_it_runs_on(
    tmp_path: Path, generation: int, name: str
) -> None:
    first, second = ("MCPError", "McpError") if generation == 1 else ("McpError", "MCPError")
    (tmp_path / "program.py").write_text(
        f"try:\n    from mcp import {first} as Chosen\nexcept ImportError:\n    from mcp import {second} as Chosen\n"
        "print(Chosen.__name__)\n"
    )
    redirect = f"from carrel.compat import redirect_imports\nredirect_imports({generation})\n"
    done = run_code(f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\n{redirect}import program")
    assert done.stdout == f"{name}\n", done.stderr


@pytest.mark.parametrize(("generation", "name"), [(1, "FastMCP"), (2, "MCPServer")])
def test_a_guarded_import_tells_a_program_which_version_it_runs_on(tmp_path: Path, generation: int, name: str) -> None:
    (tmp_path / "old.py").write_text("from mcp.server.fastmcp import FastMCP as Chosen\n")
    (tmp_path / "new.py").write_text("from mcp.server.mcpserver import MCPServer as Chosen\n")
    (tmp_path / "program.py").write_text(
        "try:\n    from new import Chosen\nexcept ImportError:\n    from old import Chosen\nprint(Chosen.__name__)\n"
    )
    redirect = f"from carrel.compat import redirect_imports\nredirect_imports({generation})\n"
    done = run_code(f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\n{redirect}import program")
    assert done.stdout == f"{name}\n", done.stderr
