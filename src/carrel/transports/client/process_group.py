"""Process group of a child process: signals the child and all of its descendants together.

On POSIX the child starts a new session, and its pid is the id of the process group. A process that has left the group
(a daemon) is not signalled.
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

#: Arguments of ``loop.subprocess_exec`` that start a child in a new process group.
NEW_GROUP: Mapping[str, Any]
if sys.platform == "win32":
    # Not done: job objects, with a child that starts suspended until it is assigned to one, and ends with it.
    NEW_GROUP = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
else:
    NEW_GROUP = {"start_new_session": True}


class ProcessGroup:
    """Process group of the child ``pid``."""

    __slots__ = ("_gone", "pid")

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._gone = False

    def leave(self) -> None:
        """Record that the child itself has exited: only its descendants can still be in the group."""
        if sys.platform == "win32":
            self._gone = True
        else:
            self._send(0)

    def terminate(self) -> None:
        """Send SIGTERM to the group."""
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL to the group (on Windows, terminate the child)."""
        self._send(signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL)

    @property
    def alive(self) -> bool:
        """Whether the group has processes that are not zombies."""
        self._send(0)
        return not self._gone and not self._all_zombies()

    def _send(self, number: int) -> None:
        if not self._gone:
            self._gone = not _send(self.pid, number)

    def _all_zombies(self) -> bool:
        """Return whether all processes of the group are zombies. A container may have no init that reaps them."""
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
    """Send a signal to a process group and return whether it exists."""
    try:
        if sys.platform != "win32":
            os.killpg(pid, number)
        elif number:
            os.kill(pid, number)
    except OSError:  # they have exited; or, on other systems than Linux, they are zombies
        return False
    return True


def kill(pid: int, parent: int) -> None:
    """Kill the group of ``pid`` if this process is the ``parent``, and not a fork of it."""
    if os.getpid() == parent:
        _send(pid, signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL)
