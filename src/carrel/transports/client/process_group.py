"""A child process with everything that it has started: they are told to end together.

On POSIX that is a process group, whose number is the one of the child, in a session of its own. A process that has
left the group (a daemon) is not of them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["NEW_GROUP", "ProcessGroup", "kill"]

#: What ``loop.subprocess_exec`` has to be told, so that a child begins a group.
NEW_GROUP: Mapping[str, Any]
if sys.platform == "win32":
    # Job objects would belong here: a child that is suspended until it is assigned to one, and ends with it.
    NEW_GROUP = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
else:
    NEW_GROUP = {"start_new_session": True}


class ProcessGroup:
    """The child ``pid`` and what it has started."""

    __slots__ = ("_gone", "pid")

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._gone = False

    def leave(self) -> None:
        """Take note that the child itself has ended, and nobody but what it left behind may have its number."""
        if sys.platform == "win32":
            self._gone = True
        else:
            self._send(0)

    def terminate(self) -> None:
        """Ask all of them to end."""
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """End all of them."""
        self._send(signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL)

    @property
    def alive(self) -> bool:
        """Whether there is anybody left."""
        self._send(0)
        return not self._gone and not self._all_zombies()

    def _send(self, number: int) -> None:
        if not self._gone:
            self._gone = not _send(self.pid, number)

    def _all_zombies(self) -> bool:
        """Say whether all of them have ended and wait for somebody to look. In a container, there may be nobody."""
        if sys.platform != "linux":
            return False
        states = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                state, _, group = stat.read_text(errors="replace").rpartition(")")[2].split()[:3]
            except (OSError, ValueError):
                continue
            if int(group) == self.pid:
                states.append(state)
        return all(state == "Z" for state in states)


def _send(pid: int, number: int) -> bool:
    """Send a signal to a group and say whether there is one."""
    try:
        if sys.platform != "win32":
            os.killpg(pid, number)
        elif number:
            os.kill(pid, number)
    except OSError:  # they have ended; or, elsewhere than on Linux, they are zombies
        return False
    return True


def kill(pid: int, parent: int) -> None:
    """End the group of ``pid`` if this process, and not one that it was forked into, is the ``parent``."""
    if os.getpid() == parent:
        _send(pid, signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL)
