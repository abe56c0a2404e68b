"""ToolNames: names of the tools of many servers as vendors accept them, which can be found again."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from hashlib import sha256

__all__ = ["LIMIT", "ToolNames", "valid_name"]

#: Maximum length of a name, in characters, at Anthropic and OpenAI.
LIMIT = 64
#: Separator between the names of server and tool.
SEPARATOR = "__"
#: Hexadecimal digits of the digest at the end of a name that was cut.
DIGITS = 8

INVALID = re.compile(r"[^a-zA-Z0-9_-]")


def valid_name(text: str) -> str:
    """Return a text with each character that names of tools cannot have replaced by an underscore, of any length.

    A name begins with a letter or an underscore, which Gemini wants.
    """
    name = INVALID.sub("_", text)
    return name if name[:1].isalpha() or name[:1] == "_" else f"_{name}"


class ToolNames:
    """Mapping between tools (server and name) and the names that a model sees.

    A valid, unique name stays unchanged. Tools with equal names on several servers get the server's name as a prefix,
    as in ``shop__find``; with ``prefix``, all tools do. A name that is then too long or not unique ends with a digest
    of its server and tool.

    A tool keeps its name even if it disappears for a while or another tool of that name appears, because conversations
    refer to it.
    """

    def __init__(self, tools: Iterable[tuple[str, str]] = (), *, prefix: bool = False) -> None:
        self._prefix = prefix
        self._names: dict[tuple[str, str], str] = {}
        self._tools: dict[str, tuple[str, str]] = {}
        self.add(tools)

    def add(self, tools: Iterable[tuple[str, str]]) -> None:
        """Name the tools, pairs of server and name, that have no name yet."""
        new = [tool for tool in dict.fromkeys(tools) if tool not in self._names]
        plain = Counter(valid_name(name) for _, name in new)
        for tool in new:
            short = valid_name(tool[1])
            if self._prefix or plain[short] > 1:
                short = self._long(tool)
            if len(short) > LIMIT or short in self._tools:
                short = self._long(tool)
            self._take(tool, short)

    def _long(self, tool: tuple[str, str]) -> str:
        server, name = tool
        return valid_name(f"{server}{SEPARATOR}{name}" if server else name)

    def _take(self, tool: tuple[str, str], wanted: str) -> None:
        name, salt = wanted, 0
        while len(name) > LIMIT or name in self._tools:
            seed = "\0".join((*tool, str(salt) if salt else ""))
            digest = sha256(seed.encode("utf-8", "surrogatepass")).hexdigest()
            name = f"{wanted[: LIMIT - DIGITS - 1]}_{digest[:DIGITS]}"
            salt += 1
        self._names[tool] = name
        self._tools[name] = tool

    def name_of(self, server: str, tool: str) -> str:
        """Return the name that a model sees; a tool without one gets it now."""
        if (server, tool) not in self._names:
            self.add([(server, tool)])
        return self._names[server, tool]

    def find(self, name: str) -> tuple[str, str] | None:
        """Return the server and the tool of a name; None if no tool has it."""
        return self._tools.get(name)
