"""State that replicas of a server share, as records: interfaces, stores in memory and in Redis, and their contract."""

from typing import TYPE_CHECKING

from carrel.late import late

if TYPE_CHECKING:
    from carrel.state.interfaces import State
    from carrel.state.memory import MemoryState, MemoryTables
    from carrel.state.redis.state import RedisState
    from carrel.state.shared_texts import SharedTexts

__all__ = [
    "MemoryState",
    "MemoryTables",
    "RedisState",
    "SharedTexts",
    "State",
]

#: Modules that are imported when their names are first used.
MODULES = {
    "carrel.state.interfaces": ("State",),
    "carrel.state.memory": (
        "MemoryState",
        "MemoryTables",
    ),
    "carrel.state.redis.state": ("RedisState",),
    "carrel.state.shared_texts": ("SharedTexts",),
}

if not TYPE_CHECKING:
    __getattr__ = late(__name__, MODULES)
