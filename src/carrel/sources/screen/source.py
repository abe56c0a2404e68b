"""Screen source: pictures of a display, its monitors or its windows, under ``screen:`` URIs.

``scope`` defines the shared places, ``desktop`` lists monitors and windows on each platform, ``camera`` takes pictures
and limits their rate, and ``picture`` encodes them as files.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Hashable, Mapping

from carrel.catalog.paging import page_after
from carrel.catalog.provider import Change, Events, Hit, Interest, Page, Request
from carrel.errors import ResourceNotFound, ResourceTooLarge
from carrel.media_types import DIRECTORY
from carrel.printable import printable
from carrel.sources.base import BaseSource, PartialVariable
from carrel.sources.content.directory import directory_contents
from carrel.sources.content.words import words_of
from carrel.sources.polling import poll
from carrel.sources.screen.camera import Camera, Shot
from carrel.sources.screen.desktop import Area
from carrel.sources.screen.options import ScreenOptions
from carrel.sources.screen.picture import FORMATS, PictureFormat, fitting, read_form
from carrel.sources.screen.scope import read_target
from carrel.sources.watches import RunningWatches
from carrel.wire.resources import (
    BlobResourceContents,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
)

__all__ = ["ScreenSource"]

#: 1568 pixels are what large language models look at, at most.
WIDTHS = ("640", "1024", "1280", "1568", "1920")


class ScreenSource(BaseSource):
    """Provider of pictures of a display and its monitors, of one monitor, or of the windows of a display.

    Raises:
        ConfigError: the target is not a display, a monitor or the windows of a display.
    """

    options = ScreenOptions
    changes = "machine"
    tool_names = frozenset[str]()
    prompt_names = frozenset[str]()

    def __init__(self, target: str, options: ScreenOptions = ScreenOptions()) -> None:  # noqa: B008
        self._scope = read_target(target, options.alias)
        self.name = self.uri = self._scope.uri
        self.prefixes = (self.uri,)
        self._options = options
        self._form = PictureFormat(options.image_format, options.max_width)
        self._camera = Camera(self._scope, options)
        self._watches = RunningWatches()

    def __repr__(self) -> str:
        return f"ScreenSource({self.uri!r})"

    async def start(self, events: Events) -> None:
        """Find the display. No picture is taken.

        Raises:
            ConfigError: it is not there, or a package is missing.
        """
        await self._camera.start()

    async def stop(self) -> None:
        """End watches, and forget all pictures."""
        await self._watches.stop()
        await self._camera.stop()

    # Lists

    async def _resources(self, request: Request) -> list[Resource]:
        return [self._resource(uri, area) for uri, area in (await self._camera.areas(request.client)).items()]

    def _resource(self, uri: str, area: Area) -> Resource:
        name = printable(area.name)
        whole = uri == self.uri and self._scope.monitor is None
        kind = "Window" if self._scope.windows else "Display" if whole else "Monitor"
        return Resource(
            uri,
            name if name and self._scope.windows else uri.partition("://")[2].partition("/")[2] or uri,
            title=f"{kind} {name}".strip(),
            description=f"{area.width} × {area.height} pixels at {area.left}, {area.top}",
            mime_type=f"image/{self._form.format}",
            meta={"carrel/pixels": [area.width, area.height]},
        )

    async def list_resources(self, request: Request) -> Page[Resource]:
        """Return a page of the display and its monitors, or of the windows and the folder that they are in."""
        found = await self._resources(request)
        if self._scope.windows:
            found.insert(0, Resource(self.uri, "windows", title="Windows", mime_type=DIRECTORY))
        return page_after(found, request, f"screen {self.uri}")

    async def list_directory(self, uri: str, request: Request) -> Page[Resource]:
        """Return a page of the windows."""
        if not self._scope.windows or uri != self.uri:
            raise ResourceNotFound(uri)
        return page_after(await self._resources(request), request, f"windows {self.uri}")

    # Reading

    async def read_resource(self, uri: str, request: Request) -> ReadResourceResult:
        """Return a picture, taken now or within the last ``min_interval`` seconds; or the windows as JSON."""
        picture_uri, _, query = uri.partition("?")
        if not (picture_uri == self.uri or picture_uri.startswith(f"{self.uri}/")):
            raise ResourceNotFound(uri)
        if self._scope.windows and uri == self.uri:
            visible = request.visible
            windows = [one for one in await self._resources(request) if visible is None or visible(one.uri)]
            return ReadResourceResult(contents=[directory_contents(uri, windows)])
        form = read_form(query, self._form)
        shot = await self._camera.shot(picture_uri, request.client)
        if shot is None:
            raise ResourceNotFound(uri)
        picture = await self._camera.run(request.client, shot.picture, form)
        if len(picture.data) > self._options.max_size:
            raise await self._too_large(uri, shot, form, request.client)
        contents = BlobResourceContents(
            uri,
            picture.data,
            mime_type=picture.mime_type,
            meta={"carrel/captured": shot.time.isoformat(), "carrel/pixels": [picture.width, picture.height]},
        )
        fresh = max(0.0, shot.expires - asyncio.get_running_loop().time())
        return ReadResourceResult(contents=[contents], ttl_ms=int(fresh * 1000))

    async def _too_large(self, uri: str, shot: Shot, form: PictureFormat, client: str) -> ResourceTooLarge:
        limit = self._options.max_size
        width = await self._camera.run(client, fitting, shot.pixels, form, limit)
        chosen = "" if form.format == self._form.format else f"&format={form.format}"
        advice = f"; read {uri.partition('?')[0]}?width={width}{chosen}" if width else ""
        return ResourceTooLarge(uri, f"The picture has more than {limit} bytes{advice}")

    # Templates, completion, search

    def _templates(self) -> list[ResourceTemplate]:
        """Return the template of pictures in a size and a format."""
        what = "a window" if self._scope.windows else "the display, or of one of its monitors"
        template = ResourceTemplate(
            self._scope.template,
            "window" if self._scope.windows else "display",
            title="Screenshot",
            description=f"A picture of {what}, at most width pixels wide, as {' or '.join(FORMATS)}",
        )
        return [template]

    async def _suggest(self, variable: PartialVariable, request: Request) -> list[str]:
        """Return suggestions for a variable: numbers of monitors, windows by id or title, widths, formats."""
        if variable.name in ("width", "format"):
            known = WIDTHS if variable.name == "width" else FORMATS
            return [one for one in known if one.startswith(variable.value)]
        typed, windows = variable.value.casefold(), self._scope.windows
        areas = await self._camera.areas(request.client)
        ids = {uri.removeprefix(f"{self.uri}/"): area for uri, area in areas.items() if uri != self.uri}
        return [id for id, area in ids.items() if id.startswith(typed) or (windows and typed in area.name.casefold())]

    async def _hits(self, query: str, limit: int, request: Request) -> list[Hit]:
        """Return the displays, monitors or windows whose names have all words of a query."""
        words = words_of(query)
        found = await self._resources(request) if words else []
        hits = [Hit(one, 1.0) for one in found if all(word in f"{one.name} {one.title}".casefold() for word in words)]
        return hits[:limit]

    # Changes

    def watch(self, interest: Interest) -> AsyncIterator[Collection[Change]]:
        """Return the windows and monitors that come and go, and the subscribed ones whose pixels have changed."""
        return self._watches.join(
            poll(lambda: self._fingerprints(interest), self._options.poll_seconds, owner=self.uri)
        )

    async def _fingerprints(self, interest: Interest) -> Mapping[str, Hashable]:
        """Return fingerprints of the displays, monitors and windows of interest."""
        changes = await self._camera.changes({uri.partition("?")[0] for uri in interest.uris})
        return {self.uri: tuple(changes), **changes} if self._scope.windows else changes
