"""Camera: takes the pictures of a scope, at most one of each place in ``min_interval`` seconds."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from typing import TypeVar
from zlib import crc32

from carrel.errors import ConfigError, ProviderUnavailable
from carrel.log import Log
from carrel.sources.packages import needed
from carrel.sources.screen.desktop import Area, Desktop, DesktopUnavailable, Pixels
from carrel.sources.screen.options import ScreenOptions
from carrel.sources.screen.picture import Picture, PictureFormat, encode
from carrel.sources.screen.scope import ScreenScope
from carrel.sources.workers import Workers

__all__ = ["Camera", "Shot"]

log = Log("carrel.sources")
T = TypeVar("T")

#: Seconds that a display has to answer.
PATIENCE = 10.0
#: Forms of one picture that are kept with it.
MAX_FORMS = 8


class Shot:
    """Pixels of a place as they were at a ``time``, with the pictures made of them.

    At ``expires``, a time of the event loop, the timer ``end`` drops them, and the next picture may be taken.
    """

    def __init__(self, pixels: Pixels, expires: float, end: asyncio.Handle) -> None:
        self.pixels = pixels
        self.time = datetime.now(UTC)
        self.expires = expires
        self.end = end  # of uvloop, it does not know its time if that is now
        self._pictures: dict[PictureFormat, Picture] = {}

    def picture(self, form: PictureFormat) -> Picture:
        """Return the picture in a form. It blocks."""
        found = self._pictures.get(form)
        if found is None:
            found = encode(self.pixels, form)
            if len(self._pictures) < MAX_FORMS:
                self._pictures[form] = found
        return found


class Camera:
    """Take pictures on request, cache each until the next may be taken, and log each picture."""

    def __init__(self, scope: ScreenScope, options: ScreenOptions) -> None:
        self._scope = scope
        self._interval = options.min_interval
        self._workers = Workers(self, "carrel-screen")
        self._desktop: Desktop | None = None
        self._lock = asyncio.Lock()
        self._shots: dict[str, Shot] = {}
        self._sums: dict[str, int] = {}
        self._changes: dict[str, int] = {}
        self._seen: set[str] = set()

    def __repr__(self) -> str:
        return f"the source {self._scope.uri}"

    async def start(self) -> None:
        """Find the display. No picture is taken.

        Raises:
            ConfigError: it is not there, or a package is missing.
        """
        self._workers.start()
        try:
            async with asyncio.timeout(PATIENCE):
                self._desktop = await self._workers.run("", open_desktop, self._scope.number)
                areas = await self._workers.run("", self._scope.areas, self._desktop)
            if not areas and self._scope.monitor is not None:
                raise ConfigError(f"{self._scope.uri}: there is no such monitor; the first one is 0")
        except BaseException as error:
            await self.stop()
            if isinstance(error, DesktopUnavailable | TimeoutError):
                raise ConfigError(f"{self._scope.uri}: {message_of(error)}") from None
            raise

    async def stop(self) -> None:
        """Wait for running captures, and clear the cached pictures."""
        await self._workers.stop()
        for shot in self._shots.values():
            shot.end.cancel()
        self._shots.clear()

    async def run(self, client: str, function: Callable[..., T], *arguments: object) -> T:
        """Run a function in a thread, on behalf of a client."""
        return await self._workers.run(client, function, *arguments)

    async def areas(self, client: str) -> dict[str, Area]:
        """Return the areas that are currently visible, by URI.

        Raises:
            ProviderUnavailable: the display cannot be reached.
        """
        self._workers.check()
        assert self._desktop is not None
        try:
            async with asyncio.timeout(PATIENCE):
                return await self.run(client, self._scope.areas, self._desktop)
        except (DesktopUnavailable, TimeoutError) as error:
            raise self._unavailable(error) from None

    async def shot(self, uri: str, client: str) -> Shot | None:
        """Return the last picture of a place, or a new one if a new one may be taken; None if it is not there.

        Raises:
            ProviderUnavailable: the display cannot be reached.
        """
        self._workers.check()
        try:
            async with asyncio.timeout(PATIENCE), self._lock:
                return self._shots.get(uri) or await self._take(uri, client)
        except (DesktopUnavailable, TimeoutError) as error:
            raise self._unavailable(error) from None

    async def _take(self, uri: str, client: str) -> Shot | None:
        loop = asyncio.get_running_loop()
        expires = loop.time() + self._interval
        # All wait for the lock, so that it is not held until one client's own threads are free.
        taken = await self.run("", self._grab, uri)
        if taken is None:
            return None
        pixels, total = taken
        shot = self._shots[uri] = Shot(pixels, expires, loop.call_at(expires, self._shots.pop, uri, None))
        if self._sums.get(uri, total) != total:
            self._changes[uri] = self._changes.get(uri, 0) + 1
        self._sums[uri] = total
        if uri not in self._seen:
            self._seen.add(uri)
            log.warning("%s: a client reads pictures of this screen (each is logged at level info)", uri)
        log.info("%s: picture taken for %s", uri, f"client {client}" if client else "the client")
        return shot

    def _grab(self, uri: str) -> tuple[Pixels, int] | None:
        assert self._desktop is not None
        area = self._scope.areas(self._desktop).get(uri)  # an area that is not listed is not shared
        pixels = None if area is None else self._desktop.grab(area)
        return None if pixels is None else (pixels, crc32(pixels.data))

    async def changes(self, uris: Collection[str]) -> Mapping[str, int]:
        """Return the number of observed changes of each place. Take pictures of the places in ``uris``.

        Raises:
            ProviderUnavailable: the display cannot be reached.
        """
        areas = await self.areas("")
        for uri in sorted(areas.keys() & set(uris)):
            await self.shot(uri, "")
        for uri in self._sums.keys() - areas:
            del self._sums[uri]
            self._changes.pop(uri, None)
            self._seen.discard(uri)
        return {uri: self._changes.get(uri, 0) for uri in areas}

    def _unavailable(self, error: Exception) -> ProviderUnavailable:
        log.warning("%s: %s", self._scope.uri, message_of(error))
        return ProviderUnavailable(f"The display of {self._scope.uri}")


def message_of(error: BaseException) -> str:
    return str(error) or f"the display has not answered in {PATIENCE:g} s"


def open_desktop(number: int | None) -> Desktop:
    """Return the X display of a number, or the user's desktop if it is None.

    Raises:
        ConfigError: the desktop is not available, or a package is missing. The message explains how to fix it.
    """
    if sys.platform in ("win32", "darwin"):
        if number is not None:
            raise ConfigError("screen: displays have numbers under X11 only; use screen://localhost/display")
        with needed("screen: URLs", "screen"):
            import PIL

            from carrel.sources.screen.native import NativeDesktop

        return NativeDesktop()
    if number is None:
        if os.environ.get("WAYLAND_DISPLAY") or os.environ.get("XDG_SESSION_TYPE") == "wayland":
            raise ConfigError(
                "screen: under Wayland, programs cannot take pictures of the screen; log in to a session of X11, "
                "or name an X display such as screen::1"
            )
        if not os.environ.get("DISPLAY"):
            raise ConfigError("screen: there is no display, as DISPLAY is not set; name one, such as screen::1")
    with needed("screen: URLs", "screen"):
        import PIL  # noqa: F401

        from carrel.sources.screen.x11 import X11Desktop

    return X11Desktop(None if number is None else f":{number}")
