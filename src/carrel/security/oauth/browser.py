"""Showing a page of somebody else's to the user.

The URL comes from a document that anybody may have written. So only https pages are opened, and http ones of this
machine; and none is handed to a shell, whatever stands in it.
"""

from __future__ import annotations

import asyncio
import logging
import webbrowser

from carrel.errors import AuthorizationError, ConfigError
from carrel.security.fetch import check_url

__all__ = ["check_page", "open_page"]

log = logging.getLogger("carrel.security")

#: What RFC 3986 has in a URL, and nothing else: no quotes, no brackets of shells, no blanks.
ALLOWED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~:/?[]@!$&'()*+,;=%")
MAX_LENGTH = 16 * 1024


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
    try:
        opened = await asyncio.to_thread(webbrowser.open, page)
    except (OSError, webbrowser.Error):
        opened = False
    if not opened:
        log.warning("No browser could be opened. To go on, open this page on this machine: %s", page)
