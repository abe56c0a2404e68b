"""Chromium, and a person in front of the page of a studio: what the page shows, asks of other origins, and violates."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Locator,
    Page,
    Request,
    async_playwright,
    expect,
)

from support.carrel_process import PATIENCE, command
from support.debian import find, program

__all__ = ["Person", "browsing", "opened_page", "studio"]

#: How long something may take to appear, in milliseconds: a busy machine is no failure.
SHOWN = 60_000
expect.set_options(timeout=SHOWN)

#: Has the engine of Chromium, and takes a third less processor time.
HEADLESS = "chromium-headless-shell"
ARGUMENTS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
#: What a failed test leaves behind.
FAILURES = Path(__file__).parents[2] / "build/journeys"


@asynccontextmanager
async def browsing() -> AsyncIterator[Browser]:
    """Start Chromium without its windows, or all of it. If there is none, the test fails and names the package."""
    path = find(HEADLESS) or find("chromium") or program(HEADLESS)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        await browser.close()


@asynccontextmanager
async def studio(
    *arguments: str, cwd: Path | None = None, env: Mapping[str, str] | None = None, name: str = "studio"
) -> AsyncIterator[str]:
    """Start ``carrel studio`` or ``carrel dev --studio``, give the link that it prints, and end it with Ctrl-C."""
    options = ("--studio",) if name == "dev" else ("--no-open", "--port", "0")
    process = await asyncio.create_subprocess_exec(
        *command(name, *options, *arguments, env=env),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        cwd=cwd,
        env=env,
    )
    assert process.stdout is not None
    try:
        link = (await asyncio.wait_for(process.stdout.readline(), PATIENCE)).decode().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/#token=[\w-]{43}", link), link
        yield link
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGINT)
        await asyncio.wait_for(process.wait(), PATIENCE)


class Person:
    """Somebody in front of the page. Things are found by their roles and accessible names."""

    def __init__(self, page: Page, link: str) -> None:
        self.page = page
        self.link = link
        self.origin = link.partition("/#")[0]
        self.origins = {self.origin}
        """Origins of the studio: of the page, and of contents."""
        self.foreign: list[str] = []
        """URLs of requests to other origins."""
        self.refused: list[str] = []
        """Messages about violations of the policy of the page, and errors of its scripts."""

    def see(self, role: Any, name: str | re.Pattern[str] | None = None, **more: Any) -> Locator:
        """Return what has a role and an accessible name."""
        return self.page.get_by_role(role, **({} if name is None else {"name": name}), **more)

    def region(self, name: str) -> Locator:
        """Return a region."""
        return self.page.get_by_role("region", name=name, exact=True)

    async def ready(self, *names: str) -> None:
        """Wait until servers are ready."""
        for name in names:
            item = self.region("Servers").get_by_role("listitem", name=re.compile(f"^{re.escape(name)}, ready"))
            await item.wait_for(state="attached")

    async def copied(self) -> str:
        """Return the text of the clipboard."""
        return str(await self.page.evaluate("navigator.clipboard.readText()"))

    def _request(self, request: Request) -> None:
        url = urlsplit(request.url)
        if url.scheme not in ("data", "blob", "about") and f"{url.scheme}://{url.netloc}" not in self.origins:
            self.foreign.append(request.url)

    def _failed(self, request: Request) -> None:
        if request.failure == "csp" and request.url in self.foreign:  # it has not left the browser
            self.foreign.remove(request.url)

    def _console(self, message: ConsoleMessage) -> None:
        if re.search(r"Content Security Policy|Trusted ?Type|Refused to", message.text):
            self.refused.append(f"{message.location['url']}: {message.text}")


@asynccontextmanager
async def opened_page(browser: Browser, link: str, name: str = "page", **options: Any) -> AsyncIterator[Person]:
    """Give a person with a new profile in front of the page of a studio.

    At the end, the page has asked nothing of another origin, has violated no policy, and no script of it has failed.
    """
    context: BrowserContext = await browser.new_context(
        **{"locale": "en-US", "viewport": {"width": 1280, "height": 800}, "reduced_motion": "reduce", **options}
    )
    context.set_default_timeout(SHOWN)
    await context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = await context.new_page()
    person = Person(page, link)
    page.on("console", person._console)
    page.on("pageerror", lambda error: person.refused.append(str(error)))
    page.on("request", person._request)
    page.on("requestfailed", person._failed)
    try:
        response = await page.goto(link)
        assert response is not None
        policy = response.headers["content-security-policy"]
        person.origins.update(re.findall(r"frame-src (http://127\.0\.0\.1:\d+)", policy))
        assert len(person.origins) == 2, policy
        yield person
        assert person.foreign == []
        assert person.refused == []
    except BaseException:
        FAILURES.mkdir(parents=True, exist_ok=True)
        await page.screenshot(path=FAILURES / f"{name}.png")
        (FAILURES / f"{name}.txt").write_text(await page.locator("body").aria_snapshot())
        raise
    finally:
        await context.close()
