"""NameLearning: reads the names and templates of a gateway's servers when their lists change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from carrel.awaitables import resolved
from carrel.catalog.provider import ListName, Request
from carrel.errors import MCPError
from carrel.gateway.look_alikes import LookAlike
from carrel.gateway.names import Names
from carrel.gateway.upstream import UpstreamTransform
from carrel.host.remote import RemoteProvider
from carrel.log import Log
from carrel.uri.template import UriTemplate, UriTemplateError, shared_template
from carrel.wire.resources import ResourceTemplate

__all__ = ["NameLearning"]

log = Log("carrel.gateway")

#: Maximum number of indexed templates per server: each URI is matched against all of them.
MAX_TEMPLATES = 200
#: Maximum number of look-alikes in the log.
MAX_LOGGED = 100


class NameLearning:
    """Reads the names, templates and skills of servers in the background, and has an index of the templates.

    ``report`` is called after the templates of a server were read.
    """

    def __init__(self, names: Names, report: Callable[[], None]) -> None:
        self.templates: dict[str, Sequence[ResourceTemplate]] = {}
        """The templates that have been read, by server."""
        self._names = names
        self._report = report
        self._patterns: dict[str, list[tuple[str, UriTemplate]]] = {}
        """Servers and their templates, by scheme; "" for templates that begin with a variable."""
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._due: dict[str, tuple[dict[ListName, None], dict[RemoteProvider, None]]] = {}
        """Changed lists, and sessions with new names, that have to be read, by server."""
        self._logged: set[LookAlike] = set()

    def schedule(
        self, upstream: UpstreamTransform, lists: Iterable[ListName], session: RemoteProvider | None = None
    ) -> None:
        """Schedule reading changed lists of a server, and the names that it has in a session."""
        due = self._due.setdefault(upstream.name, ({}, {}))
        due[0].update(dict.fromkeys(lists))
        if session is not None:
            due[1][session] = None
        if upstream.name not in self._tasks:
            task = self._tasks[upstream.name] = asyncio.ensure_future(self._learn(upstream))
            task.add_done_callback(lambda _: self._tasks.get(upstream.name) is task and self._tasks.pop(upstream.name))

    def forget(self, name: str) -> None:
        """Stop reading the lists of a server, and forget its templates."""
        task = self._tasks.pop(name, None)
        if task is not None:
            task.cancel()
        self._due.pop(name, None)
        if self.templates.pop(name, None) is not None:
            self._index_templates()

    async def settled(self, timeout: float | None = None) -> None:
        """Wait until the changed lists of the connected servers have been read, for at most ``timeout`` seconds."""
        while self._tasks:
            _, waiting = await asyncio.wait(list(self._tasks.values()), timeout=timeout)
            if waiting and timeout is not None:
                return

    def matching(self, uri: str, *, plain: bool = False) -> set[str]:
        """Return the servers with a template that matches a URI; ``plain``: only templates without a prefix."""
        if not self._patterns:
            return set()
        patterns = self._patterns.get(uri.partition(":")[0], []) + self._patterns.get("", [])
        return {
            server
            for server, pattern in patterns
            if uri.startswith(pattern.prefix)
            and pattern.match(uri) is not None
            and not (plain and not self._names.is_plain("template", server, pattern.template))
        }

    async def _learn(self, upstream: UpstreamTransform) -> None:
        """Read the names of a server, its resource templates, and its skills."""
        while (due := self._due.pop(upstream.name, None)) is not None:
            lists, sessions = due
            await upstream.learn(lists.keys())
            for session in sessions:
                await upstream.learn_from(session)
            self._log_look_alikes()
            if "resources_list_changed" in lists and await self._learn_resources(upstream):
                self._report()

    async def _learn_resources(self, upstream: UpstreamTransform) -> bool:
        """Read the templates and skills of a server, and return whether that succeeded."""
        try:
            if upstream.offers("list_templates"):
                found = await upstream.templates()
                await upstream.learn_templates(found[:MAX_TEMPLATES], found)
                self.templates[upstream.name] = found[:MAX_TEMPLATES]
                self._index_templates()
            if upstream.offers("list_skills"):
                await resolved(upstream.list_skills(Request(limit=1000)))
        except MCPError as error:
            log.debug("%s: its templates are not known: %s", upstream.name, error)
            return False
        return True

    def _log_look_alikes(self) -> None:
        """Log each name that looks like another server's name, once."""
        for kind, found in islice(self._names.look_alikes(), MAX_LOGGED):
            if found not in self._logged and len(self._logged) < MAX_LOGGED:
                self._logged.add(found)
                log.warning(
                    "the %s %s of %s looks like %s of %s",
                    *(kind, ascii(found.name), found.server, ascii(found.like), found.other),
                )

    def _index_templates(self) -> None:
        self._patterns = {}
        for server, templates in self.templates.items():
            for pattern in _parsed(server, templates):
                scheme = pattern.prefix.partition(":")[0] if ":" in pattern.prefix else ""
                self._patterns.setdefault(scheme, []).append((server, pattern))


def _parsed(server: str, templates: Iterable[ResourceTemplate]) -> Iterable[UriTemplate]:
    for template in templates:
        try:
            yield shared_template(template.uri_template)
        except UriTemplateError as error:
            log.warning("%s: %s is not a URI template: %s", server, template.uri_template, error)
