"""State that replicas of a server share, as records: interfaces, stores in memory and in Redis, and their contract."""

from typing import TYPE_CHECKING

from carrel.late import late

if TYPE_CHECKING:
    from carrel.state.interfaces import State
    from carrel.state.memory import MemoryState, MemoryTables
    from carrel.state.redis.state import RedisState

__all__ = [
    "MemoryState",
    "MemoryTables",
    "RedisState",
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
}

if not TYPE_CHECKING:
    __getattr__ = late(__name__, MODULES)
