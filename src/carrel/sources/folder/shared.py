"""Shared folder: a folder or file on disk, the rules that select its shared files, and the tree of the shared files."""

# Importing pathlib takes a few milliseconds of the start.
# ruff: noqa: PTH100, PTH111, PTH116

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from copy import copy
from stat import S_ISDIR, S_ISREG
from typing import Self

from carrel.errors import ConfigError
from carrel.sources.folder.describe import display
from carrel.sources.folder.options import FolderOptions
from carrel.sources.folder.position import Parts
from carrel.sources.folder.sandbox import SandboxRoot
from carrel.sources.folder.selection import FileSelection
from carrel.sources.folder.tree import Tree
from carrel.sources.folder.tree_view import TreeView
from carrel.uri.intervals import Intervals

__all__ = ["SharedFolder"]


class SharedFolder:
    """A folder, or one file, that is shared. All methods block, and are thread-safe.

    Raises:
        ConfigError: a pattern is not valid.
    """

    def __init__(self, path: str | os.PathLike[str], options: FolderOptions, include: Iterable[str] = ()) -> None:
        self.path = os.path.abspath(os.path.expanduser(path))
        self.is_file = False
        self._selection = FileSelection(include, options.exclude, hidden=options.hidden, gitignore=options.gitignore)
        self.tree = Tree(SandboxRoot(self.path, follow_links=options.follow_symlinks), self._selection)

    def inspect(self) -> None:
        """Check that the folder exists and can be read.

        Raises:
            ConfigError: it does not exist, may not be read, or is neither a folder nor a file.
        """
        shown = display(self.path)
        try:
            mode = os.stat(self.path).st_mode
            if not (S_ISDIR(mode) or S_ISREG(mode)):
                raise ConfigError(f"{shown} is neither a folder nor a file")
            self.is_file = S_ISREG(mode)
            if not self.is_file:
                self._selection.look_above(self.path)
            self.tree.open(()).close()
        except FileNotFoundError:
            raise ConfigError(f"There is no {shown}") from None
        except OSError as error:
            raise ConfigError(f"{shown} cannot be shared: {error.strerror}") from None

    def seen_by(self, uri: Callable[[Parts], str], visible: Callable[[str], bool], within: Intervals | None) -> Self:
        """Return the folder as a caller sees it, to whom URIs are visible ``within`` intervals only.

        ``uri`` maps a path in the folder to its URI.
        """
        view = copy(self)
        view.tree = TreeView(self.tree, self.path, uri, visible, within)
        return view

    def forget(self) -> None:
        """Clear the caches."""
        self.tree.forget()
