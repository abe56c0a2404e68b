"""Parts of the face of ``fastmcp``. Helpers that Carrel has no use for are loaded from the installed package."""

from carrel.compat.fastmcp.borrowed import installed_folders

__path__ += installed_folders("utilities")
