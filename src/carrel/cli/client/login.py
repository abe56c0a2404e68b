"""``carrel login``: OAuth in the browser; the token is kept in the keyring, or in private files."""

from __future__ import annotations

from carrel.cli.client.connection import answered
from carrel.cli.options import Parser
from carrel.cli.target import resolve_url
from carrel.cli.terminal.messages import print_stderr, show
from carrel.cli.values import number
from carrel.redaction import without_secrets

__all__ = ["parser", "run"]

SUMMARY = "Log in to a server in the browser (OAuth). All commands use the token from then on, and renew it."
EXAMPLES = """\
examples:
  carrel login https://mcp.example.org/mcp
  carrel login https://mcp.example.org/mcp --scope 'files:read' --client-id my-application
  carrel ls https://mcp.example.org/mcp
  carrel logout https://mcp.example.org/mcp

The token is kept in the keyring of the operating system, or in files that only you can read.
"""
PATIENCE = 300.0


def parser() -> Parser:
    """Return the argument parser of ``carrel login``."""
    reader = Parser("login", SUMMARY, epilog=EXAMPLES)
    reader.add_argument(
        "url", metavar="URL", help="the URL of the server, or its name in carrel.toml or an application"
    )
    reader.add_argument("--scope", metavar="SCOPES", default="", help="scopes to request, besides the required ones")
    reader.add_argument("--client-id", metavar="ID", help="the client identifier, if it was registered by hand")
    reader.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=number,
        default=PATIENCE,
        help=f"how long you have to log in (default: {PATIENCE:g})",
    )
    return reader


def run(arguments: list[str]) -> int:
    """Run ``carrel login`` and return the exit code: 0, 3 if there is no token, or no connection.

    Raises:
        ConfigError: wrong use, or a package is missing.
    """
    options = parser().parse_args(arguments)
    url = resolve_url(options.url)

    async def log_in() -> int:
        from carrel.client.client import Client
        from carrel.security.client.authorization_code import OAuth
        from carrel.transports.client.options import HTTPOptions

        oauth = OAuth(client_id=options.client_id, scopes=options.scope, patience=options.timeout, open_url=open_page)
        async with Client(url, http=HTTPOptions(auth=oauth)) as client:
            await client.ping()
            name = url if client.server is None else client.server.name
            has_token = bool(await oauth.headers(url))
        said = f"logged in to {name}" if has_token else f"{name} requires no login"
        print_stderr(f"carrel: {said}")
        return 0

    return answered(log_in, name=without_secrets(url))


async def open_page(url: str) -> None:
    """Open the login page in the browser, and print its URL in case no browser opens."""
    from carrel.security.client.browser import check_page, start_browser

    print_stderr("carrel: log in in the browser; if none opens, at this address:")
    show(check_page(url))
    if not await start_browser(url):
        print_stderr("carrel: no browser could be opened; open the address in one on this machine")
