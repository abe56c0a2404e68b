"""Whether a tool may run as a task."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, TypeAlias

__all__ = ["DEFAULT_POLL_INTERVAL", "DEFAULT_TTL_MS", "TaskConfig", "TaskMeta", "TaskMode"]

TaskMode: TypeAlias = Literal["forbidden", "optional", "required"]
DEFAULT_POLL_INTERVAL = timedelta(seconds=5)
DEFAULT_TTL_MS = 60_000


@dataclass
class TaskMeta:
    """Request of a client that a call runs as a task."""

    ttl: int | None = None
    fn_key: str | None = None


@dataclass
class TaskConfig:
    """Mode of a tool: whether its calls must, may or cannot run as tasks."""

    mode: TaskMode = "optional"
    poll_interval: timedelta = DEFAULT_POLL_INTERVAL

    @classmethod
    def from_bool(cls, value: bool) -> TaskConfig:
        """Return the mode ``optional`` or ``forbidden``."""
        return cls("optional" if value else "forbidden")

    @classmethod
    def of(cls, given: bool | TaskConfig | None) -> TaskConfig:
        """Return the mode of an argument ``task``."""
        return given if isinstance(given, TaskConfig) else cls.from_bool(bool(given))

    def supports_tasks(self) -> bool:
        """Return whether calls may run as tasks."""
        return self.mode != "forbidden"

    def validate_function(self, fn: Callable[..., Any], name: str) -> None:
        """Check that a function can run as a task.

        Raises:
            ValueError: the function is not asynchronous.
        """
        if not self.supports_tasks():
            return
        inner = fn if inspect.isroutine(fn) or isinstance(fn, functools.partial) else fn.__call__  # type: ignore[operator]
        while isinstance(inner, functools.partial):
            inner = inner.func
        if not inspect.iscoroutinefunction(inner):
            raise ValueError(
                f"'{name}' uses a sync function but has task execution enabled. "
                "Background tasks require async functions."
            )
