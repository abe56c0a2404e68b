"""By keyboard only at 390 px, in German, dark; axe finds nothing serious; 100,000 resources scroll and are filtered."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import expect

from studio.journeys.conftest import Visit
from support.browser import Person

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

ROOT = Path(__file__).parents[3]
SERVERS = ROOT / "tests/support/servers"
#: Elements of the page at most, and bytes of its scripts, with 100,000 resources.
MOST_ELEMENTS, MOST_BYTES = 2_500, 60 * 2**20


async def faults(me: Person) -> list[str]:
    """Return what axe finds that is serious or critical."""
    axe = ROOT / "ui/node_modules/axe-core/axe.min.js"
    assert axe.is_file(), "axe-core is missing: npm ci in ui/ installs it"
    if not await me.page.evaluate("typeof axe === 'object'"):
        await me.page.evaluate(f"{axe.read_text(encoding='utf-8')};undefined")
    found: dict[str, Any] = await me.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{each['id']}: {node['html']} {node['failureSummary']}"
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]


async def too_wide(me: Person) -> list[str]:
    """Return the elements because of which the whole page would scroll sideways."""
    found: list[str] = await me.page.evaluate(
        "document.documentElement.scrollWidth <= innerWidth ? [] : [...document.querySelectorAll('body *')]"
        ".filter(each => each.getBoundingClientRect().right > innerWidth).map(each => each.outerHTML.slice(0, 200))"
    )
    return found


async def elements(me: Person) -> int:
    """Return the number of elements of the page."""
    return int(await me.page.evaluate("document.querySelectorAll('*').length"))


async def press(me: Person, *keys: str) -> None:
    """Press keys, one after the other."""
    for key in keys:
        await me.page.keyboard.press(key)


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "tea.md").write_text(
        "# Tea\n\nGreen tea is *brewed* at [seventy](wine.md) degrees.\n\n```python\nx = 1\n```\n"
    )
    (folder / "wine.md").write_text("# Wine\n\n- red\n- white\n")
    (folder / "data.json").write_text('[{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]')
    return folder


async def test_everything_is_done_by_keyboard_on_a_narrow_dark_german_page(visit: Visit, notes: Path) -> None:
    narrow = {"viewport": {"width": 390, "height": 800}, "locale": "de-DE", "color_scheme": "dark"}
    async with visit(str(notes), **narrow) as me:
        await me.see("tree", "Ressourcen").wait_for()
        assert await me.page.evaluate("document.documentElement.lang") == "de"
        assert await too_wide(me) == []
        # search, go to the result, read it
        await press(me, "/")
        await expect(me.see("searchbox", "Ressourcen durchsuchen")).to_be_focused()
        await me.page.keyboard.type("tea")
        await expect(me.see("treeitem")).to_have_count(2)
        await press(me, "ArrowDown")
        await expect(me.see("tree", "Ressourcen")).to_be_focused()
        await press(me, "ArrowDown", "Enter")
        await expect(me.region("Vorschau").get_by_role("heading", name="tea.md")).to_be_visible()
        await expect(me.see("tree", "Ressourcen")).to_be_hidden()
        assert await faults(me) == []
        # back, into the context with the space bar, and to the region of the context
        await press(me, "Escape")
        await expect(me.see("tree", "Ressourcen")).to_be_visible()
        await press(me, "/")
        await expect(me.see("searchbox", "Ressourcen durchsuchen")).to_be_focused()
        await press(me, "Enter")
        await expect(me.see("tree", "Ressourcen")).to_be_focused()
        await press(me, "End", "Space")
        await expect(me.see("treeitem", "tea.md, Im Kontext")).to_be_visible()
        await press(me, "F6", "F6")
        context = me.region("Kontext")
        await expect(context.get_by_role("searchbox", name="Frage")).to_be_focused()
        await expect(context.get_by_role("list", name="Im Kontext").get_by_role("link")).to_have_text(["tea.md"])
        assert await faults(me) == []
        assert await too_wide(me) == []
        # commands
        await press(me, "Control+k")
        dialog = me.see("dialog", "Befehle")
        await expect(dialog.get_by_role("combobox")).to_be_focused()
        assert await faults(me) == []
        await me.page.keyboard.type("wine.md")
        await expect(dialog.get_by_role("option").first).to_contain_text("wine.md")
        await press(me, "Enter")
        await expect(me.region("Vorschau").get_by_role("heading", name="wine.md")).to_be_visible()
        await press(me, "?")
        await expect(me.see("dialog")).to_be_visible()
        assert await faults(me) == []


@pytest.mark.parametrize(
    ("locale", "scheme"),
    [
        ("zh-CN", "light"),
        pytest.param("en-US", "dark", marks=pytest.mark.exhaustive),  # other journeys have English and dark pages
    ],
)
async def test_axe_finds_nothing_serious(visit: Visit, notes: Path, locale: str, scheme: str) -> None:
    async with visit(str(notes), str(SERVERS / "asking.py"), locale=locale, color_scheme=scheme) as me:
        tree = me.page.get_by_role("tree")
        await tree.get_by_role("treeitem", name="tea.md").wait_for()
        assert await faults(me) == []
        await tree.get_by_role("treeitem", name="tea.md").click()
        await me.page.get_by_role("tabpanel").get_by_role("emphasis").wait_for()
        await me.page.get_by_role("searchbox").first.fill("tea type:text/markdown")
        await me.page.get_by_role("list").get_by_role("mark").first.wait_for()
        assert await faults(me) == []
        for path in ("/s/notes/r/{}?view=text#L1-L2", "/s/notes/r/{}"):
            for name in ("tea.md", "data.json"):
                await me.page.goto(me.origin + path.format((notes / name).as_uri().replace("/", "%2F")))
                await me.page.locator("#view").get_by_text(re.compile("seventy|x")).first.wait_for()
                assert await faults(me) == []
        for path in ("/s/asking/t/find", "/s/asking/x/weather%3A%2F%2F%7Bcountry%7D%2F%7Bcity%7D%2F%7Bday%7D"):
            await me.page.goto(me.origin + path)
            await me.page.locator("form fieldset").wait_for()
            assert await faults(me) == []
        await me.page.goto(f"{me.origin}/s/asking/t/order")
        for width in (390, 700, 1120, 2560):
            await me.page.set_viewport_size({"width": width, "height": 900})
            assert await too_wide(me) == [], width
        for region in ("servers", "picker", "preview", "context"):  # all beside each other on a wide screen
            box = await me.page.locator(f"section.{region}").bounding_box()
            assert box is not None
            assert box["width"] >= 150, (region, box)
        await me.page.locator("section.preview form button[type=submit]").click()  # the context has a form too
        await me.page.get_by_role("dialog").wait_for()
        assert await faults(me) == []


async def test_a_hundred_thousand_resources_scroll_and_are_filtered(visit: Visit) -> None:
    async with visit(str(SERVERS / "large_library.py")) as me:
        await expect(me.see("status").filter(has_text="100,000 resources")).to_be_visible()
        await me.see("button", "List", exact=True).click()
        grid = me.see("grid", "Resources")
        await expect(grid).to_have_attribute("aria-rowcount", "100000")
        await expect(grid.get_by_role("row").first).to_contain_text("note 000000")
        counts = [await elements(me)]
        await grid.focus()
        await press(me, "End")
        await expect(grid.get_by_role("row").filter(has_text="note 099999")).to_be_visible()
        counts.append(await elements(me))
        # far jumps, as with the scroll bar
        for part in (0.25, 0.5, 0.9):
            await grid.evaluate("(grid, part) => grid.scrollTop = grid.scrollHeight * part", part)
            wanted = re.compile(f"note 0{int(part * 100)}")
            await expect(grid.get_by_role("row").filter(has_text=wanted).first).to_be_visible()
            counts.append(await elements(me))
        await me.see("searchbox", "Search resources").fill("under:memo://library/42/ type:text/plain")
        await expect(grid).to_have_attribute("aria-rowcount", "100")
        await expect(grid.get_by_role("row").first).to_contain_text("note 042000")
        await me.see("searchbox", "Search resources").fill("")
        await expect(grid).to_have_attribute("aria-rowcount", "100000")
        await me.see("button", "Tree", exact=True).click()
        await me.see("treeitem", "00", exact=True).wait_for()
        folder = me.see("tree", "Resources").get_by_role("treeitem", name="42", exact=True)
        await me.see("tree", "Resources").evaluate("tree => tree.scrollTop = 40 * 28")
        await folder.click()
        await expect(me.see("treeitem", "note 042000")).to_be_visible()
        counts.append(await elements(me))
        assert max(counts) <= MOST_ELEMENTS, counts
        assert await me.page.evaluate("performance.memory.usedJSHeapSize") <= MOST_BYTES
        await me.see("treeitem", "note 042000").click()
        await expect(me.region("Preview")).to_contain_text("Words of note 42000.")
