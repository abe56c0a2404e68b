"""Opens the authorization page in the user's web browser.

The URL comes from untrusted metadata. Therefore, only https pages and http pages on this machine are opened, and the
URL is never passed to a shell.
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

__all__ = ["check_page", "open_page", "start_browser"]

log = Log("carrel.security", longest=8192)  # enough for the whole URL of a page

#: The characters that RFC 3986 allows in a URL: no double quotes, no angle brackets, no spaces.
ALLOWED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~:/?[]@!$&'()*+,;=%")
MAX_LENGTH = 16 * 1024
#: Seconds after which a browser command that has not returned counts as started.
STARTED = 5.0


def check_page(url: str) -> str:
    """Return the URL of a page after checking that it may be opened.

    Raises:
        AuthorizationError: the page must not be opened.
    """
    try:
        check_url(url, "the page to authorize at")
    except ConfigError as error:
        raise AuthorizationError(f"No browser is opened: {error}") from None
    if not ALLOWED.issuperset(url) or len(url) > MAX_LENGTH:
        raise AuthorizationError(f"No browser is opened: {url[:200]!r} holds characters that no URL has")
    return url


async def open_page(url: str) -> None:
    """Open a page in the user's browser; if there is no browser, log the URL.

    Raises:
        AuthorizationError: the page must not be opened.
    """
    if not await start_browser(url):
        log.warning("No browser could be opened. Open this page on this machine to continue: %s", url)


async def start_browser(url: str) -> bool:
    """Start a browser with a page, and return whether it started; still starting after ``STARTED`` seconds counts too.

    Raises:
        AuthorizationError: the page must not be opened.
    """
    page = check_page(url)
    if sys.platform == "linux" and not {"DISPLAY", "WAYLAND_DISPLAY", "BROWSER"} & set(os.environ):
        return False  # only a text browser would be left, and it would take over this terminal
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
            return  # the event loop is closed

    threading.Thread(target=start, daemon=True).start()  # a daemon, so that it does not delay the exit of the program
    done, _ = await asyncio.wait([outcome], timeout=STARTED)
    return outcome.result() if done else True
