"""Examinations: what ``carrel doctor`` checks, for the servers of a studio, with the checks as they finish."""

from __future__ import annotations

import asyncio
from typing import Literal

import msgspec

from carrel.doctor.examination import examine
from carrel.doctor.recorder import RecordedMessages
from carrel.doctor.report import Report
from carrel.host.hosted_server import HostedServer
from carrel.printable import printable, printable_lines
from carrel.redaction import without_secrets
from carrel.studio.api import Payload, Problem
from carrel.studio.bodies import Body
from carrel.studio.events import PageEvents
from carrel.studio.problems import Refused, problem_of
from carrel.transports.client.options import ProcessOptions

__all__ = ["DoctorRequest", "DoctorView", "Examinations", "FindingView"]

#: Seconds that a request of an examination may take.
PATIENCE = 10.0
#: Examinations that may run at a time.
MAX_RUNNING = 4


class FindingView(Payload, frozen=True, kw_only=True):
    """Rule that a server breaks, and where."""

    rule: str
    severity: Literal["error", "warning", "advice"]
    title: str
    locations: tuple[str, ...]
    count: int
    advice: str
    specification: str


class DoctorView(Payload, frozen=True, kw_only=True):
    """Examination of a server. ``done`` are the names of finished checks, ``current`` is the running check.

    ``score`` is None until the examination is complete.
    """

    server: str
    state: Literal["none", "running", "done", "failed", "cancelled"]
    done: tuple[str, ...]
    current: str | None
    findings: tuple[FindingView, ...]
    checks: dict[str, int]
    timing: dict[str, float]
    notes: tuple[str, ...]
    revision: str
    score: int | None
    error: Problem | None


class DoctorRequest(Body, frozen=True, kw_only=True):
    """Options of an examination: call all tools, send hostile input."""

    call: bool = False
    hostile: bool = False


class Examination:
    """Examination that runs in a task."""

    def __init__(self, server: str) -> None:
        self.server = server
        self.report = Report(target=server)
        self.done: list[str] = []
        self.current: str | None = None
        self.state: Literal["running", "done", "failed", "cancelled"] = "running"
        self.error: Problem | None = None
        self.task: asyncio.Task[None] | None = None

    @property
    def view(self) -> DoctorView:
        """The state of the examination. Texts of the server are escaped."""
        report = self.report
        return DoctorView(
            server=self.server,
            state=self.state,
            done=tuple(self.done),
            current=self.current,
            findings=tuple(
                FindingView(
                    rule=each.rule,
                    severity=each.severity,
                    title=each.title,
                    locations=tuple(printable(without_secrets(location)) for location in each.locations),
                    count=each.count,
                    advice=each.advice,
                    specification=each.specification,
                )
                for each in report.findings
            ),
            checks=report.checks,
            timing=report.timing,
            notes=tuple(printable_lines(note) for note in report.notes),
            revision=report.revision,
            score=report.score if self.state == "done" else None,
            error=self.error,
        )


class Examinations:
    """The last examination of each server. The page is told about each finished check."""

    def __init__(self, events: PageEvents) -> None:
        self._events = events
        self._all: dict[str, Examination] = {}

    def view(self, server: str) -> DoctorView:
        """Return the state of the last examination of a server."""
        found = self._all.get(server)
        if found is None:
            return msgspec.structs.replace(Examination(server).view, state="none")
        return found.view

    def start(self, server: HostedServer, request: DoctorRequest) -> DoctorView:
        """Start to examine a server over a separate connection. A running examination continues.

        Raises:
            Refused: too many examinations are running.
        """
        found = self._all.get(server.name)
        if found is not None and found.state == "running":
            return found.view
        if sum(each.state == "running" for each in self._all.values()) >= MAX_RUNNING:
            raise Refused(429, "Too many examinations are running")
        self._all[server.name] = examination = Examination(server.name)
        examination.task = asyncio.ensure_future(self._examine(server, examination, request))
        return examination.view

    def cancel(self, server: str) -> None:
        """Cancel the examination of a server, if one is running."""
        found = self._all.get(server)
        if found is not None and found.task is not None:
            found.task.cancel()

    async def close(self) -> None:
        """Cancel all examinations."""
        tasks = [each.task for each in self._all.values() if each.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _examine(self, server: HostedServer, examination: Examination, request: DoctorRequest) -> None:
        def progress(about: str | None) -> None:
            if examination.current is not None:
                examination.done.append(examination.current)
            examination.current = about
            self._events.put(type="doctor", name=server.name)

        recording = RecordedMessages()
        try:
            client = await server.another_client(handlers=None, process=ProcessOptions(stderr=recording.errors.append))
            await examine(
                client,
                examination.report,
                recording,
                hostile=request.hostile,
                call=request.call,
                timeout=PATIENCE,
                progress=progress,
            )
        except asyncio.CancelledError:
            examination.state = "cancelled"
            raise
        except Exception as error:
            examination.state, examination.error = "failed", problem_of(error)
        else:
            examination.state = "done"
        finally:
            progress(None)
