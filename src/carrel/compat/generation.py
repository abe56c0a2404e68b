"""Generation of a program: whether it was written for ``mcp`` 1 or 2, by its imports and its requirements.

FastMCP 2 and 3 stand on ``mcp`` 1, and FastMCP 4 on ``mcp`` 2.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from importlib import metadata
from itertools import islice
from pathlib import Path

from carrel.errors import ConfigError
from carrel.module_files import find_module_file

__all__ = [
    "NEWEST_FASTMCP",
    "default_generation",
    "fastmcp_generation",
    "fastmcp_version",
    "find_fastmcp",
    "find_generation",
    "generation_of_source",
    "installed_fastmcp",
    "is_mcp_2",
    "keeps_references",
    "set_generation",
]

#: Version of ``fastmcp`` whose behaviour programs get where the package is not installed.
NEWEST_FASTMCP = "4.1.6"
#: Modules that only one generation has, and modules below them.
MODULES = {
    1: (
        "mcp.server.fastmcp",
        "mcp.server.experimental",
        "mcp.shared.session",
        "mcp.shared.progress",
        "mcp.server.websocket",
    ),
    2: (
        "mcp_types",
        "mcp.client.auth.extensions.identity_assertion",
        "mcp.client.caching",
        "mcp.client.client",
        "mcp.client.context",
        "mcp.client.extension",
        "mcp.client.subscriptions",
        "mcp.server._otel",
        "mcp.server.apps",
        "mcp.server.caching",
        "mcp.server.connection",
        "mcp.server.context",
        "mcp.server.extension",
        "mcp.server.mcpserver",
        "mcp.server.request_state",
        "mcp.server.runner",
        "mcp.server.subscriptions",
        "mcp.shared.dispatcher",
        "mcp.shared.inbound",
        "mcp.shared.path_security",
        "mcp.shared.subscriptions",
        "mcp.shared.transport_context",
        "mcp.shared.uri_template",
        "mcp.types.jsonrpc",
        "mcp.types.methods",
        "mcp.types.version",
    ),
}
#: Names that only one generation has, in ``mcp`` and its modules.
NAMES = {
    1: frozenset(("FastMCP", "McpError", "streamablehttp_client", "RequestContext", "request_ctx")),
    2: frozenset(
        (
            "CacheConfig",
            "CacheHint",
            "Client",
            "ClientRequestContext",
            "DiscoverResult",
            "IdentityAssertionParams",
            "InputRequiredResult",
            "MCPDeprecationWarning",
            "MCPError",
            "MCPServer",
            "ServerRequestContext",
            "UriTemplate",
            "advertise",
            "client_request_adapter",
            "jsonrpc_message_adapter",
        )
    ),
}
#: Attributes and arguments of the types, which are in camelCase in 1 and in snake_case in 2.
CAMEL = re.compile(
    r"(inputSchema|outputSchema|isError|structuredContent|nextCursor|mimeType|protocolVersion|serverInfo)"
)
SNAKE = frozenset(("input_schema", "is_error", "next_cursor", "server_info", "uri_template"))
#: The first major version of each package that stands on ``mcp`` 2.
FIRST = {"mcp": 2, "mcp-types": 2, "fastmcp": 4, "fastmcp-slim": 4}
FASTMCP = ("fastmcp-slim", "fastmcp")
REQUIREMENT = re.compile(r"^\s*([A-Za-z0-9._-]+)\s*(?:\[[^\]]*\])?\s*\(?([^;)]*)")
LOWER = re.compile(r"(>=|==|~=|>)\s*(\d+)")
UPPER = re.compile(r"<\s*=?\s*(\d+)")
SCRIPT = re.compile(r"(?m)^# /// script$\n((?:^#(?: .*)?$\n)+?)^# ///$")
USES_FASTMCP = re.compile(r"(?m)^\s*(?:from|import)\s+fastmcp\b")
#: Number of files of a program that are read.
MOST_FILES = 200

#: The generation of the running program and the version of ``fastmcp`` that it requires, from ``set_generation``.
_running: int | None = None
_required_fastmcp: int | None = None


def set_generation(generation: int | None, fastmcp: int | None = None) -> None:
    """Set the generation of the running program, and the major version of ``fastmcp``. None if nothing tells."""
    global _running, _required_fastmcp
    _running, _required_fastmcp = generation, fastmcp


def is_mcp_2() -> bool:
    """Return whether the running program was written for ``mcp`` 2; false if nothing tells."""
    return _running == 2


def fastmcp_generation() -> int:
    """Return the major version of ``fastmcp`` whose behaviour the running program gets: 2, 3 or 4."""
    generation = _generation_of_version(fastmcp_version()) if _running is None else _running
    if generation == 2:
        return 4
    return 2 if _required_fastmcp == 2 or (installed_fastmcp() or "").startswith("2.") else 3


def keeps_references() -> bool:
    """Return whether schemas of tools keep references to their definitions, as before FastMCP 2.14."""
    minor = (installed_fastmcp() or "").split(".")[1:2]
    return fastmcp_generation() == 2 and minor != [] and int(minor[0]) < 14


@cache
def installed_fastmcp() -> str | None:
    """Return the version of the installed package ``fastmcp``, without loading its code."""
    for package in FASTMCP:
        with suppress(metadata.PackageNotFoundError):
            return metadata.version(package)
    return None


def fastmcp_version() -> str:
    """Return the version of the installed package ``fastmcp``, or the newest version that is mirrored."""
    return installed_fastmcp() or NEWEST_FASTMCP


def default_generation() -> int:
    """Return the generation of a program of which nothing tells, from the installed package ``fastmcp``."""
    installed = installed_fastmcp()
    return 1 if installed is None else _generation_of_version(installed)


def _generation_of_version(version: str) -> int:
    return 2 if int(version.partition(".")[0]) >= FIRST["fastmcp"] else 1


def find_generation(program: list[str]) -> int | None:
    """Return the generation of a program: a file, a folder, or ``-m`` and a module. None if nothing tells.

    For a module of an installed package, and for a command that imports one, the requirements of the package tell,
    or its files.

    Raises:
        ConfigError: the word after ``-m`` is not the name of a module.
    """
    module = _module_of(program)
    for requirements in _requirements(program, module):
        required = _required(requirements)
        if required is not None:
            return required
    sources = [_read(file) for file in _files_of(_with_module(program, module))]
    for source in sources:
        found = generation_of_source(source)
        if found is not None:
            return found
    if any(map(USES_FASTMCP.search, sources)):
        return _generation_of_version(fastmcp_version())
    return None


def find_fastmcp(program: list[str]) -> int | None:
    """Return 2 if a program requires ``fastmcp`` 2, else None."""
    given = _requirements(program, _module_of(program))
    versions = (found[1] for each in given for found in _versions(each) if found[0] in FASTMCP)
    return 2 if any(_is_at_least(3, each) is False for each in versions) else None


def _requirements(program: list[str], module: str | None) -> Iterator[Iterable[object]]:
    """Yield the requirements of a program's distribution, of its inline metadata and of its project."""
    if module is not None:
        yield from _of_distribution(module, Path(program[0]).stem)
    for file in islice(_files_of(_with_module(program, module)), 1):
        yield from _of_file(_read(file), file.parent)


def _with_module(program: list[str], module: str | None) -> list[str]:
    """Return a program with ``-m`` and its module in place of a command, if it has a module."""
    return program if module is None else ["-m", module]


def _module_of(program: list[str]) -> str | None:
    """Return the module of ``-m``, or the module that the command of an installed package imports.

    Raises:
        ConfigError: the word after ``-m`` is not the name of a module.
    """
    if program[0] == "-m":
        if len(program) > 1 and not all(part.strip() for part in program[1].split(".")):
            raise ConfigError(f"argument -m: {program[1]!r} is not the name of a module")
        return program[1] if len(program) > 1 else None
    file = Path(program[0])
    if file.suffix == ".exe":  # the launcher of a command on Windows
        entries = metadata.entry_points(group="console_scripts", name=file.stem)
        return next((each.module for each in entries), None)
    if file.parent != Path(sys.executable).parent:
        return None
    with suppress(SyntaxError, ValueError):
        for module, _, level in _imports(ast.parse(_read(file))):
            if not level and module.partition(".")[0] not in sys.stdlib_module_names:
                return module
    return None


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


# Files


def _files_of(program: list[str]) -> Iterator[Path]:
    """Yield the files of a program: its own first, then the modules beside it that it imports."""
    if program[0] == "-m":
        if len(program) < 2:
            return
        first = find_module_file(program[1])
        if first is None:
            return
    else:
        first = Path(program[0])
        first = first / "__main__.py" if first.is_dir() else first
    seen: set[Path] = set()
    waiting = [first]
    while waiting and len(seen) < MOST_FILES:
        file = waiting.pop(0)
        if file in seen or not file.is_file():
            continue
        seen.add(file)
        yield file
        waiting += _beside(file, _read(file))
    package = first.parent
    if (package / "__init__.py").is_file():
        yield from (file for file in sorted(package.rglob("*.py"))[:MOST_FILES] if file not in seen)


def _beside(file: Path, source: str) -> Iterator[Path]:
    """Yield the modules in the folder of a file, and of its package, that the file imports."""
    with suppress(SyntaxError, ValueError):
        for module, names, level in _imports(ast.parse(source)):
            if module.partition(".")[0] in ("mcp", "mcp_types", "fastmcp"):
                continue
            start = file.parents[level - 1] if 0 < level <= len(file.parents) else file.parent
            base = start.joinpath(*module.split(".")) if module else start
            for path in (base, *(base / name for name in names)):
                yield path.with_suffix(".py")
                yield path / "__init__.py"


def _imports(tree: ast.AST) -> Iterator[tuple[str, list[str], int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, [], 0) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "", [alias.name for alias in node.names], node.level


# Imports


def generation_of_source(source: str) -> int | None:
    """Return the generation of a source text; None if nothing tells."""
    if "mcp" not in source:
        return None
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return None
    uses = False
    for module, names, level in _imports(tree):
        if level or module.partition(".")[0] not in ("mcp", "mcp_types"):
            continue
        uses = True
        for generation, modules in MODULES.items():
            full = {module, *(f"{module}.{name}" for name in names)}
            if any(each == known or each.startswith(f"{known}.") for each in full for known in modules):
                return generation
        for generation, known_names in NAMES.items():
            if known_names & {*names}:
                return generation
    if installed_fastmcp() is not None and USES_FASTMCP.search(source):
        return None  # FastMCP 4 has names of both styles, so its installed version decides
    return _by_style(tree) if uses else None


def _by_style(tree: ast.AST) -> int | None:
    """Return the generation by names of attributes and arguments."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            given = {keyword.arg for keyword in node.keywords if keyword.arg}
            if _called(node) == "Server" and any(name.startswith("on_") for name in given):
                return 2
        name = node.arg if isinstance(node, ast.keyword) else node.attr if isinstance(node, ast.Attribute) else None
        if name is not None and CAMEL.fullmatch(name):
            return 1
        if name in SNAKE:
            return 2
        if isinstance(node, ast.withitem) and (streams := _named_streams(node)):
            return 2 if streams == 2 else 1
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and any(map(_registers, node.decorator_list)):
            return 1
    return None


def _called(node: ast.Call) -> str | None:
    function = node.func
    return (
        function.id
        if isinstance(function, ast.Name)
        else function.attr
        if isinstance(function, ast.Attribute)
        else None
    )


def _named_streams(node: ast.withitem) -> int:
    """Return the number of names that a program gives to the streams of a connection over HTTP; 0 if it is open."""
    call, names = node.context_expr, node.optional_vars
    if not (isinstance(call, ast.Call) and _called(call) == "streamable_http_client" and isinstance(names, ast.Tuple)):
        return 0
    return 0 if any(isinstance(name, ast.Starred) for name in names.elts) else len(names.elts)


def _registers(decorator: ast.expr) -> bool:
    """Return whether a decorator is one of the low-level server of ``mcp`` 1."""
    return isinstance(decorator, ast.Call) and _called(decorator) in ("list_tools", "call_tool", "list_prompts")


# Requirements


def _of_file(source: str, folder: Path) -> Iterator[Iterable[object]]:
    """Yield the requirements in the inline metadata of a file, and those of the project of its folder."""
    import tomllib

    script = SCRIPT.search(source)
    if script is not None:
        text = "".join(line[2:] if line.startswith("# ") else line[1:] for line in script[1].splitlines(keepends=True))
        with suppress(tomllib.TOMLDecodeError):
            yield tomllib.loads(text).get("dependencies", ())
    for parent in (folder, *folder.parents[:2]):
        project = parent / "pyproject.toml"
        if project.is_file():
            with suppress(tomllib.TOMLDecodeError):
                yield tomllib.loads(_read(project)).get("project", {}).get("dependencies", ())
            return


def _of_distribution(module: str, command: str) -> Iterator[Iterable[object]]:
    """Yield the requirements of the distribution of a module, or of a command.

    Most distributions have the name of one of them; to look for others takes longer than to start a program.
    """
    parts = module.split(".")
    for name in (command, *("-".join(parts[:length]) for length in range(1, len(parts) + 1))):
        with suppress(metadata.PackageNotFoundError):
            yield metadata.requires(name) or ()


def _versions(requirements: Iterable[object]) -> Iterator[tuple[str, str]]:
    """Yield the packages in requirements, each with the versions that are allowed."""
    for each in requirements:
        match = REQUIREMENT.match(each) if isinstance(each, str) else None
        if match is not None:
            yield re.sub(r"[-_.]+", "-", match[1]).lower(), match[2]


def _required(requirements: Iterable[object]) -> int | None:
    """Return the generation that requirements name by a version; None if they allow both."""
    for package, versions in _versions(requirements):
        later = _is_at_least(FIRST[package], versions) if package in FIRST else None
        if later is not None:
            return 2 if later else 1
    return None


def _is_at_least(first: int, versions: str) -> bool | None:
    """Return whether all allowed versions are of a major version or later, or earlier (False); None if some are."""
    lower = [int(number) for _, number in LOWER.findall(versions)]
    upper = [int(number) for number in UPPER.findall(versions)]
    if lower and max(lower) >= first:
        return True
    exact = any(operator in ("==", "~=") for operator, _ in LOWER.findall(versions))
    return False if exact or (upper and min(upper) <= first) else None
