"""Shared folders: file selection (.gitignore patterns), sandboxed access, tree walks and change watching."""
