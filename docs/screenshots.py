"""Takes the pictures of Carrel Studio in the documentation, from the running page in Chromium.

    python docs/screenshots.py          writes docs/pictures/*.png, which README.md and docs/studio.md show
    python docs/screenshots.py --all    writes each view in three languages, light and dark, wide and narrow, into
                                        build/pictures, to look at

Needs the packages of the tests and Chromium. The pictures of the documentation are in git.
"""

from __future__ import annotations

import asyncio
import html
import io
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

from PIL import Image
from playwright.async_api import Browser, Locator

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from support.browser import Person, browsing, opened_page, studio  # noqa: E402

QUESTION = "when is the reading room open?"
WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
#: Colours of a picture: as few as do not show, so that the file is small.
COLOURS = 128
#: Seconds after which an animation is over.
PAUSE = 0.5

View: TypeAlias = Callable[[Person], Awaitable[None]]


def first(me: Person, selector: str) -> Locator:
    """Return an element by its class, which is the same in every language."""
    return me.page.locator(selector).first


async def show_page(me: Person) -> None:
    """Show a note, and a context for a question."""
    if me.page.viewport_size == WIDE:
        await show_note(me)
    else:
        await me.page.goto(f"{me.origin}/context")
    await first(me, "section.context input[type=search]").fill(QUESTION)
    await first(me, "section.context button.primary").click()
    await first(me, "section.context [role=meter]").wait_for()


async def show_note(me: Person) -> None:
    """Show the preview of a note."""
    await show_picker(me)
    await me.page.locator("[role=treeitem][aria-level='2']", has_text="notes").click()
    await me.page.locator("[role=treeitem] a[href$='reading-room.md']").click()
    await first(me, "section.preview .markdown").wait_for()


async def show_picker(me: Person) -> None:
    """Show the tree of resources."""
    await me.page.goto(f"{me.origin}/browse")
    await first(me, "[role=treeitem]").wait_for()


async def call_sum(me: Person) -> None:
    """Call a tool whose answer is invalid."""
    await me.page.goto(f"{me.origin}/s/deficient/t/sum?args=%7B%22a%22%3A1%2C%22b%22%3A2%7D")
    await first(me, "section.preview button.primary").click()
    await first(me, "section.preview [role=alert]").wait_for()


async def show_wire(me: Person) -> None:
    """Show an invalid answer in the timeline."""
    await call_sum(me)
    await me.page.goto(f"{me.origin}/wire?server=deficient")
    await me.page.locator("[role=row] .tag.bad").first.click()
    await first(me, "section.message .notice").wait_for()


async def show_comparison(me: Person) -> None:
    """Show the same request by an old and a new client."""
    await me.page.goto(f"{me.origin}/wire?server=library&method=resources%2Flist")
    await me.page.locator("[role=row]").first.click()
    await me.page.locator("section.message a[href^='/wire/compare']").click()
    await first(me, "section.preview button.primary").click()
    await first(me, "section.preview .pair .side").wait_for()
    await me.page.evaluate("document.querySelector('.drawer .line > button')?.click()")


async def show_doctor(me: Person) -> None:
    """Show the report of the doctor."""
    await me.page.goto(f"{me.origin}/doctor/deficient")
    await first(me, "section.preview button.primary").click()
    await first(me, "section.preview .score").wait_for()


VIEWS: dict[str, View] = {
    "page": show_page,
    "note": show_note,
    "picker": show_picker,
    "wire": show_wire,
    "compare": show_comparison,
    "doctor": show_doctor,
}
#: Pictures of the documentation: view, size and colour scheme.
PICTURES = {
    "studio": ("page", WIDE, "light"),
    "studio-dark": ("page", WIDE, "dark"),
    "studio-narrow": ("note", NARROW, "light"),
    "studio-wire": ("wire", WIDE, "light"),
    "studio-compare": ("compare", WIDE, "light"),
}
#: Commands that the picture of the terminal shows, with their output.
COMMANDS = (
    ["carrel", "find", "library", "type:text/markdown reading"],
    ["carrel", "context", "library", QUESTION, "--budget", "220"],
)
TERMINAL = """<!doctype html><meta charset=utf-8><style>
body {{ margin: 0; background: #fff }}
pre {{ margin: 16px; padding: 18px 22px; border-radius: 10px; background: #1c2027; color: #dfe3ea; width: 860px;
  font: 14px/1.5 "DejaVu Sans Mono", monospace; white-space: pre-wrap; overflow-wrap: anywhere }}
b {{ color: #8ab4f8; font-weight: 400 }}</style><pre>{}</pre>"""


def save(picture: bytes, file: Path) -> None:
    """Save a picture with few colours."""
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    file.parent.mkdir(parents=True, exist_ok=True)
    image.quantize(COLOURS, dither=Image.Dither.NONE).save(file, optimize=True)
    print(f"{file.relative_to(ROOT)}  {file.stat().st_size:,} bytes")


async def take(browser: Browser, link: str, view: str, file: Path, **options: object) -> None:
    """Take a picture of a view."""
    async with opened_page(browser, link, file.stem, reduced_motion="reduce", **options) as me:
        await me.page.locator("section.servers li").first.wait_for(state="attached")
        await VIEWS[view](me)
        await asyncio.sleep(PAUSE)
        save(await me.page.screenshot(), file)


async def take_terminal(browser: Browser, folder: Path, file: Path) -> None:
    """Take a picture of commands and their real output."""
    parts = []
    for command in COMMANDS:
        done = subprocess.run(  # noqa: ASYNC221
            [sys.executable, "-m", *command], cwd=folder, capture_output=True, text=True, check=True
        )
        shown = " ".join(f"'{word}'" if " " in word else word for word in command)
        parts.append(f"<b>$</b> {html.escape(shown)}\n{html.escape(done.stdout.rstrip())}")
    page = await browser.new_page(viewport={"width": 960, "height": 600})
    await page.set_content(TERMINAL.format("\n\n".join(parts)))
    save(await page.locator("body").screenshot(), file)
    await page.close()


async def main(folder: Path, *, everything: bool) -> None:
    """Start the studio for a folder with a library and a file of servers, and take the pictures."""
    async with browsing() as browser, studio("library", "mcp.json", cwd=folder) as link:
        if not everything:
            for name, (view, size, scheme) in PICTURES.items():
                file = ROOT / f"docs/pictures/{name}.png"
                await take(browser, link, view, file, viewport=size, color_scheme=scheme)
            await take_terminal(browser, folder, ROOT / "docs/pictures/terminal.png")
            return
        for view in VIEWS:
            for locale in ("en-US", "de-DE", "zh-CN"):
                for size in (WIDE, NARROW):
                    scheme = "dark" if (locale == "de-DE") == (size is WIDE) else "light"
                    file = ROOT / f"build/pictures/{view}-{locale[:2]}-{size['width']}-{scheme}.png"
                    await take(browser, link, view, file, viewport=size, color_scheme=scheme, locale=locale)


def start(*, everything: bool) -> None:
    """Copy the library of the examples, and take the pictures."""
    folder = Path(tempfile.gettempdir(), "books")  # the pictures show it
    folder.mkdir()
    try:
        shutil.copytree(ROOT / "examples/library", folder / "library")
        deficient = {"command": sys.executable, "args": [str(ROOT / "tests/support/servers/deficient.py")]}
        (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"deficient": deficient}}))
        asyncio.run(main(folder, everything=everything))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    start(everything="--all" in sys.argv)
