"""Entry point of the bundle: ``carrel serve`` on stdio, for the folders that the user has chosen."""

import sys

from carrel.cli import main

if __name__ == "__main__":
    sys.exit(main(["serve", *sys.argv[1:]]))
