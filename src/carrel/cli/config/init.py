"""``carrel init``: writes a commented carrel.toml, adapted to the contents of its folder."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from carrel.cli.config.read import DEFAULT_FILE
from carrel.cli.config.schema import schema
from carrel.cli.options import Parser
from carrel.cli.terminal.messages import say
from carrel.errors import ConfigError

__all__ = ["find_apps", "find_skills", "parser", "run", "template"]

SUMMARY = "Write a commented carrel.toml for a folder: for the server in its Python code, or else for its files."
EXAMPLES = """\
examples:
  carrel init                                   in this folder; then carrel serve, or carrel run
  carrel init ./notes                           in another one
"""
SCHEMA_FILE = ".carrel.schema.json"  # hidden, so that it is not shared
#: Usual folders of skills, relative to a project.
SKILL_FOLDERS = ("skills", ".claude/skills", ".agents/skills")
MAX_SCRIPT = 1024 * 1024

HEAD = """\
#:schema ./{schema}
# Settings of Carrel (docs/configuration.md). Lines that begin with # are comments: examples, and defaults.
# carrel config show     prints the effective settings and their sources
# carrel config check    reports errors
"""
APP = """
# The server in Python that carrel run serves.
[app]
file = {file}
"""
SERVER = """
[server]
name = {name}
# title = "The name that people see"
# instructions = "How a model should use this server."
# page_size = 100
# tools = false                  # offer no tools that read resources
"""
SOURCE = """
# Shared data: one table for each source.
[[sources]]
path = "."                       # relative to this file
exclude = [{exclude}]
# include = ["*.md", "docs/**"]
# max_size = "20MiB"             # of a file that is read whole
# hidden = true                  # share files whose names begin with a dot
{gitignore}
"""
MORE_SOURCES = """
# [[sources]]                    # files, beside the resources of the server
# path = "./docs"
"""
HAS_GITIGNORE = "# gitignore = false              # share the files that .gitignore excludes, too"
NO_GITIGNORE = "# There is no .gitignore here: all files are shared except hidden ones."
REMAINING = """
# Without a port, the server speaks on stdio, for applications that start it.
# [http]
# port = 8000
# host = "0.0.0.0"               # the default is this machine only
# allowed_hosts = ["mcp.example.org"]
# certificate = "cert.pem"       # HTTPS; or behind_proxy = true, if a reverse proxy has it
# key = "key.pem"

# Callers over HTTP need a token: of a file (carrel token add NAME --file tokens.txt), or an authorization server.
# [auth]
# tokens = "tokens.txt"
# issuer = "https://auth.example.org"
# resource = "https://mcp.example.org/mcp"

# Secrets are not in this file: ${env:NAME}, ${file:/run/secrets/name}, ${keyring:service/name}.
# [auth.introspection]
# client_id = "mcp"
# client_secret = "${env:INTROSPECTION_SECRET}"

# [limits]                       # docs/limits.md has all of them
# max_message_bytes = "16MiB"
# max_sessions = 10000

# [logging]
# level = "info"
# format = "json"
"""


def parser() -> Parser:
    """Return the argument parser of ``carrel init``."""
    reader = Parser("init", SUMMARY, epilog=EXAMPLES)
    reader.add_argument("folder", metavar="FOLDER", nargs="?", default=".", help="where to write it (default: here)")
    reader.add_argument("--force", action="store_true", help="replace an existing carrel.toml")
    return reader


def run(arguments: list[str]) -> int:
    """Run ``carrel init``.

    Raises:
        ConfigError: the folder does not exist, the file already exists, or it cannot be written.
    """
    options = parser().parse_args(arguments)
    folder = Path(options.folder).expanduser()
    if not folder.is_dir():
        raise ConfigError(f"{options.folder} is not a folder")
    file = folder / DEFAULT_FILE
    text = template(folder)
    try:
        with file.open("w" if options.force else "x", encoding="utf-8") as stream:
            stream.write(text)
        (folder / SCHEMA_FILE).write_bytes(msgspec.json.format(msgspec.json.encode(schema())) + b"\n")
    except FileExistsError:
        raise ConfigError(f"{file} already exists; --force replaces it") from None
    except OSError as error:
        raise ConfigError(f"{file} cannot be written: {error.strerror}") from None
    command = "run" if "\n[app]\n" in text else "serve"
    say(f"wrote {file} (and {SCHEMA_FILE}, for editors); now: carrel {command} --config {file}")
    return 0


def template(folder: Path) -> str:
    """Return the text of a carrel.toml for a folder."""
    apps, skills = find_apps(folder), find_skills(folder)
    parts = [HEAD.format(schema=SCHEMA_FILE)]
    if apps:
        parts.append(APP.format(file=quoted(apps[0])))
        parts += [f"# file = {quoted(other)}\n" for other in apps[1:]]
        parts.append(MORE_SOURCES)
    else:
        parts.append(SERVER.format(name=quoted(folder.resolve().name or "carrel")))
        gitignore = HAS_GITIGNORE if (folder / ".gitignore").exists() else NO_GITIGNORE
        private = [f"/{name}" for name in (DEFAULT_FILE, "tokens.txt")]
        twice = [name[1:] for name in skills if not name.startswith("./.")]  # hidden folders are excluded anyway
        parts.append(SOURCE.format(exclude=", ".join(map(quoted, [*private, *twice])), gitignore=gitignore))
    if skills:
        parts.append(f"\n[skills]\nfolders = [{', '.join(map(quoted, skills))}]\n")
    return "".join([*parts, REMAINING])


def quoted(text: str) -> str:
    """Return a text as a TOML string."""
    return msgspec.json.encode(text).decode()


def find_apps(folder: Path) -> list[str]:
    """Return the Python files in a folder that define a ``carrel.Server``, as ``FILE`` or ``FILE:NAME``. No code is
    run.
    """
    found: list[str] = []
    for file in sorted(folder.glob("*.py")):
        with contextlib.suppress(OSError, SyntaxError, ValueError, RecursionError):
            if file.is_file() and file.stat().st_size <= MAX_SCRIPT:
                names = list(servers_in(ast.parse(file.read_bytes())))
                found += [file.name] if len(names) == 1 else [f"{file.name}:{name}" for name in names]
    return found


def servers_in(module: ast.Module) -> Iterator[str]:
    """Yield the module-level names of a ``Server``, and ``make_app``, if the module imports carrel."""
    imports = [node for node in ast.walk(module) if isinstance(node, ast.Import | ast.ImportFrom)]
    modules = [node.module or "" for node in imports if isinstance(node, ast.ImportFrom)]
    modules += [alias.name for node in imports if isinstance(node, ast.Import) for alias in node.names]
    if not any(name.partition(".")[0] == "carrel" for name in modules):
        return
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == "make_app":
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign) and is_server(node.value):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (target.id for target in targets if isinstance(target, ast.Name))


def is_server(node: ast.expr | None) -> bool:
    if not isinstance(node, ast.Call):
        return False
    function = node.func.value if isinstance(node.func, ast.Subscript) else node.func  # Server[State](…)
    return (function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")) == "Server"


def find_skills(folder: Path) -> list[str]:
    """Return the usual folders of skills that exist, relative to a folder."""
    return [f"./{name}" for name in SKILL_FOLDERS if next((folder / name).glob("*/SKILL.md"), None) is not None]
