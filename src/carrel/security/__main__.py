"""``python -m carrel.security NAME [SCOPE …]``: generate a static bearer token and its line for the token file."""

from __future__ import annotations

import sys

from carrel.errors import ConfigError
from carrel.security.server.static_tokens import make_token


def main(arguments: list[str]) -> int:
    """Print a new token to standard error and its line for the token file to standard output."""
    if not arguments or arguments[0].startswith("-"):
        sys.stderr.write(
            "usage: python -m carrel.security NAME [SCOPE …] >> tokens.txt\n"
            "Makes a token: shows it once, on standard error, and prints the line for the file.\n"
        )
        return 2
    try:
        token, line = make_token(arguments[0], arguments[1:])
    except ConfigError as error:
        sys.stderr.write(f"carrel: {error}\n")
        return 2
    sys.stderr.write(f"The token of {arguments[0]}, which is shown this once:\n\n    {token}\n\n")
    sys.stdout.write(f"{line}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
