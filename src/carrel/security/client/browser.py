"""Showing a page of somebody else's to the user.

The URL comes from a document that anybody may have written. So only https pages are opened, and http ones of this
machine; and none is handed to a shell, whatever stands in it.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import webbrowser

from carrel.errors import AuthorizationError, ConfigError
from carrel.log import Log
from carrel.security.fetch import check_url

__all__ = ["check_page", "open_page"]

log = Log("carrel.security", longest=8192)  # the whole URL of a page

#: What RFC 3986 has in a URL, and nothing else: no quotes, no brackets of shells, no blanks.
ALLOWED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~:/?[]@!$&'()*+,;=%")
MAX_LENGTH = 16 * 1024
#: Seconds after which a browser that has not come back counts as started.
STARTED = 5.0


def check_page(url: str) -> str:
    """Return the URL of a page, if it may be opened.

    Raises:
        AuthorizationError: it may not.
    """
    try:
        check_url(url, "the page to authorize at")
    except ConfigError as error:
        raise AuthorizationError(f"No browser is opened: {error}") from None
    if not ALLOWED.issuperset(url) or len(url) > MAX_LENGTH:
        raise AuthorizationError(f"No browser is opened: {url[:200]!r} holds characters that no URL has")
    return url


async def open_page(url: str) -> None:
    """Open a page in the user's browser; where there is none, say in the log which page it would be.

    Raises:
        AuthorizationError: it is none that may be opened.
    """
    page = check_page(url)
    if not await _opened(page):
        log.warning("No browser could be opened. To go on, open this page on this machine: %s", page)


async def _opened(page: str) -> bool:
    """Say whether there is a browser and it was started; one that has not come back for a while was."""
    if sys.platform == "linux" and not {"DISPLAY", "WAYLAND_DISPLAY", "BROWSER"} & set(os.environ):
        return False  # one for terminals would be left, and would take this one
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[bool] = loop.create_future()

    def report(opened: bool) -> None:
        if not outcome.done():
            outcome.set_result(opened)

    def start() -> None:
        try:
            opened = webbrowser.open(page)
        except (OSError, webbrowser.Error):
            opened = False
        try:
            loop.call_soon_threadsafe(report, opened)
        except RuntimeError:
            return  # nobody is there any more to hear it

    threading.Thread(target=start, daemon=True).start()  # nothing waits for it when the program ends
    done, _ = await asyncio.wait([outcome], timeout=STARTED)
    return outcome.result() if done else True
