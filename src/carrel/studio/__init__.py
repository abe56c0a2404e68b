"""Carrel Studio: a page in a browser over any MCP servers, to look, search, pick, and put into a context."""

from typing import TYPE_CHECKING

from carrel.late import late

if TYPE_CHECKING:
    from carrel.studio.serving import serve
    from carrel.studio.studio import Studio

__all__ = ["Studio", "serve"]

#: Modules that are imported when their names are first used.
MODULES = {
    "carrel.studio.serving": ("serve",),
    "carrel.studio.studio": ("Studio",),
}

if not TYPE_CHECKING:
    __getattr__ = late(__name__, MODULES)
