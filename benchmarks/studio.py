"""The page of Carrel Studio in Chromium: ``python -m benchmarks.studio``.

Starts ``carrel studio`` over a server with 100,000 resources, over a folder, and over 50 servers, three of them
hostile, and measures what a person waits for. Needs the packages of the tests and Chromium.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.async_api import Browser

TESTS = Path(__file__).resolve().parent.parent / "tests"
sys.path.insert(0, str(TESTS))

from support.browser import Person, browsing, opened_page, studio  # noqa: E402
from support.chaos import SERVERS, write_chaos  # noqa: E402

RESOURCES, FILTERS, CHANGES, LOADS, CLICKS = 100_000, 40, 20, 5, 40
#: Acts, and returns the milliseconds until the grid has a number of rows and shows a first row.
UNTIL_ROWS = """async ({list, fill, count, text}) => {
  const began = performance.now();
  if (list) document.querySelectorAll(".picker button[aria-pressed]")[1].click();
  else {
    const field = document.querySelector("#search");
    field.value = fill;
    field.dispatchEvent(new InputEvent("input", {bubbles: true}));
  }
  for (;;) {
    const grid = document.querySelector(".picker [role=grid]");
    const row = grid?.querySelector("[role=row]");
    if (grid?.getAttribute("aria-rowcount") === String(count) && row?.textContent.includes(text))
      return performance.now() - began;
    if (performance.now() - began > 60000) throw new Error("the rows are not shown");
    await new Promise(requestAnimationFrame);
  }
}"""
#: Scrolls through the whole list for two seconds, and returns the longest task in milliseconds.
SCROLL = """async () => {
  let longest = 0;
  new PerformanceObserver((list) => {
    for (const task of list.getEntries()) longest = Math.max(longest, task.duration);
  }).observe({entryTypes: ["longtask"]});
  const grid = document.querySelector(".picker [role=grid]"), began = performance.now();
  for (let now = began; now < began + 2000; now = performance.now()) {
    grid.scrollTop = (grid.scrollHeight * (now - began)) / 2000;
    await new Promise(requestAnimationFrame);
  }
  await new Promise((done) => setTimeout(done, 200));
  return longest;
}"""
#: Returns the time, in milliseconds since 1970, at which the preview shows a text.
UNTIL_TEXT = """async (text) => {
  while (!document.querySelector(".preview")?.textContent.includes(text)) await new Promise(requestAnimationFrame);
  return Date.now();
}"""
#: Clicks a row of the tree, and returns the milliseconds until the preview shows a text.
CLICK = """async ({name, text}) => {
  const rows = [...document.querySelectorAll(".picker [role=treeitem]")];
  const began = performance.now();
  rows.find((row) => row.textContent.includes(name)).click();
  while (!document.querySelector(".preview")?.textContent.includes(text)) await new Promise(requestAnimationFrame);
  return performance.now() - began;
}"""
FIRST_PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime"


def p95(values: list[float]) -> float:
    """Return the 95th percentile."""
    return statistics.quantiles(values, n=20)[-1]


def show(what: str, value: float, target: float, unit: str = "ms") -> None:
    """Print a row of the table in docs/studio.md."""
    print(f"| {what} | {value:,.0f} {unit} | {target:,.0f} {unit} |", flush=True)


async def measure_list(me: Person) -> None:
    """Measure a list of 100,000 resources."""
    page = me.page
    await me.see("status").filter(has_text="100,000 resources").wait_for()
    paints, useful = [], []
    for _ in range(LOADS):
        await page.reload()
        await me.see("treeitem").nth(1).wait_for()
        useful.append(float(await page.evaluate("performance.now()")))
        paints.append(float(await page.evaluate(FIRST_PAINT)))
    show("first paint", statistics.median(paints), 300)
    show("the tree is shown", statistics.median(useful), 1000)
    await me.see("status").filter(has_text="100,000 resources").wait_for()
    rows: dict[str, Any] = {"list": True, "count": RESOURCES, "text": "note 000000"}
    show("first rows of 100,000 resources", float(await page.evaluate(UNTIL_ROWS, rows)), 150)
    took = []
    for number in range(10, 10 + FILTERS):
        fill = f"under:memo://library/{number}/ type:text/plain"
        filtered = {"fill": fill, "count": 100, "text": f"note 0{number}000"}
        took.append(float(await page.evaluate(UNTIL_ROWS, filtered)))
    show("filter, 95th percentile", p95(took), 100)
    await page.evaluate(UNTIL_ROWS, {"fill": "", "count": RESOURCES, "text": "note 000000"})
    show("longest task while scrolling through all of them", float(await page.evaluate(SCROLL)), 50)
    show("elements of the page", await page.evaluate("document.querySelectorAll('*').length"), 2500, "")
    heap = float(await page.evaluate("performance.memory.usedJSHeapSize"))
    show("memory of JavaScript", heap / 2**20, 60, "MiB")


async def measure_changes(me: Person, file: Path) -> None:
    """Measure the time from a changed file to its new text on the page."""
    await me.see("treeitem", file.name).click()
    took = []
    for number in range(CHANGES):
        waiting = asyncio.ensure_future(me.page.evaluate(UNTIL_TEXT, f"version {number}."))
        await asyncio.sleep(0.5)
        began = time.time()
        file.write_text(f"This is version {number}.\n")
        took.append(float(await waiting) - began * 1000)
    show("changed file on the page, median", statistics.median(took), 300)


async def measure_chaos(me: Person, files: list[Path]) -> None:
    """Measure clicks on files while other servers hang, die, and send without end."""
    await me.ready("notes")
    await me.see("treeitem", files[-1].name).wait_for()
    took = []
    for number in range(CLICKS):
        file = files[number % len(files)]
        took.append(float(await me.page.evaluate(CLICK, {"name": file.name, "text": file.read_text()})))
    show(f"a click beside {SERVERS} servers, 95th percentile", p95(took), 100)


async def measure(browser: Browser) -> None:
    """Measure everything."""
    async with studio(str(TESTS / "support/servers/large_library.py")) as link, opened_page(browser, link) as me:
        await measure_list(me)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "plan.md")
        file.write_text("This is the first version.\n")
        async with studio(folder) as link, opened_page(browser, link) as me:
            await measure_changes(me, file)
    with tempfile.TemporaryDirectory() as folder:
        notes, servers = Path(folder, "notes"), Path(folder, "mcp.json")
        notes.mkdir()
        files = [notes / f"note-{number}.md" for number in range(8)]
        for file in files:
            file.write_text(f"This is the text of {file.stem}.")
        write_chaos(servers)
        async with studio(str(notes), str(servers)) as link, opened_page(browser, link) as me:
            await measure_chaos(me, files)


async def main() -> None:
    """Start Chromium, and print the table."""
    print("| what | measured | target |\n| --- | --- | --- |")
    async with browsing() as browser:
        await measure(browser)


if __name__ == "__main__":
    asyncio.run(main())
