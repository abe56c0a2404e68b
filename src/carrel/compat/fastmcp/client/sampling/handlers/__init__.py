"""Handlers of sampling requests by services for language models, from the installed package."""

from carrel.compat.fastmcp.borrowed import installed_folders

__path__ += installed_folders("client.sampling.handlers")
