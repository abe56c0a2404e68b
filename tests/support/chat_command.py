"""``carrel chat`` as a program for ``support.forking``, which imports the packages of a chat at a terminal once."""

import sys

import anthropic.resources.messages  # noqa: F401
import rich.markdown  # noqa: F401

import carrel.chat.models.anthropic
import carrel.chat.terminal.plain
import carrel.chat.terminal.program  # noqa: F401
import support.carrel_modules  # noqa: F401
from carrel.cli import main

sys.argv[0] = "carrel"
sys.exit(main())
