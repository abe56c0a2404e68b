"""State that replicas of a server share, as records: interfaces, the store in memory, and their contract tests."""

from typing import TYPE_CHECKING

from carrel.late import late

if TYPE_CHECKING:
    from carrel.state.interfaces import State
    from carrel.state.memory import MemoryState, MemoryStore

__all__ = [
    "MemoryState",
    "MemoryStore",
    "State",
]

#: Modules that are imported when their names are first used.
MODULES = {
    "carrel.state.interfaces": ("State",),
    "carrel.state.memory": (
        "MemoryState",
        "MemoryStore",
    ),
}

if not TYPE_CHECKING:
    __getattr__ = late(__name__, MODULES)
