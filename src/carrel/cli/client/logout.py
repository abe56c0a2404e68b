"""``carrel logout``: deletes and revokes the token of ``carrel login``."""

from __future__ import annotations

from carrel.cli.client.connection import answered
from carrel.cli.options import Parser
from carrel.cli.target import resolve_url
from carrel.cli.terminal.messages import print_stderr

__all__ = ["parser", "run"]

SUMMARY = (
    "Log out of a server: delete its token on this machine, and revoke it at the authorization server that issued it. "
    "If the token cannot be revoked, the command says so: the server may accept it until it expires."
)


def parser() -> Parser:
    """Return the argument parser of ``carrel logout``."""
    reader = Parser("logout", SUMMARY, epilog="examples:\n  carrel logout https://mcp.example.org/mcp\n")
    reader.add_argument(
        "url", metavar="URL", help="the URL of the server, or its name in carrel.toml or an application"
    )
    return reader


def run(arguments: list[str]) -> int:
    """Run ``carrel logout`` and return the exit code: 0, 1 if there was no login.

    Raises:
        ConfigError: wrong use, or a package is missing.
    """
    url = resolve_url(parser().parse_args(arguments).url)

    async def log_out() -> int:
        from carrel.security.client.authorization_code import OAuth
        from carrel.security.client.revocation import NotRevoked

        oauth = OAuth()
        try:
            found = await oauth.revoke(url)
        except NotRevoked as error:
            print_stderr(f"carrel: logged out of {url}, but its token is good until it expires: {error}")
            return 0
        finally:
            await oauth.close()
        print_stderr(f"carrel: {'logged out of' if found else 'there was no login to'} {url}")
        return 0 if found else 1

    return answered(log_out)
