"""A repository whose branches are not in its list: opened folder by folder, and shown in the tree."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import expect

from studio.journeys.conftest import Visit
from support.git import Repository

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]


async def test_directories_are_opened_and_a_link_is_shown_in_the_tree(visit: Visit, tmp_path: Path) -> None:
    repository = Repository(tmp_path / "plans")
    (repository.path / "rooms").mkdir()
    repository.put("rooms/attic.md", "# Attic\n")
    (repository.path / "halls/long").mkdir(parents=True)
    repository.put("halls/long/north.md", "# North\n")
    repository.run("add", ".")
    repository.commit("Begin")
    repository.run("branch", "draft")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/lamps.md").write_text("A lantern stands on the sill.\n")
    (tmp_path / "notes/b.md").write_text("No light.\n")
    async with visit(f"git:{repository.path}", str(tmp_path / "notes")) as me:
        await me.ready("plans", "notes")
        tree, preview = me.see("tree", "Resources"), me.region("Preview")
        branches = tree.get_by_role("treeitem", name="plans: branches", exact=True)
        await expect(branches).to_have_attribute("aria-expanded", "false")
        await branches.click()
        await expect(tree.get_by_role("treeitem", name="draft", exact=True)).to_have_attribute("aria-level", "3")
        await tree.get_by_role("treeitem", name="tree/HEAD", exact=True).click()
        rooms = tree.get_by_role("treeitem", name="rooms", exact=True)
        await rooms.click()
        await expect(rooms).to_have_attribute("aria-expanded", "true")
        await tree.get_by_role("treeitem", name="attic.md", exact=True).click()
        await expect(preview.get_by_role("heading", name="attic.md").first).to_be_visible()
        address = me.page.url

        # A link to a folder opens the folders above it, level by level.
        found = tree.get_by_role("treeitem", name="attic.md", exact=True)
        await me.page.goto(address.replace("file%2F", "tree%2F").replace("%2Fattic.md", ""))
        await expect(rooms).to_have_attribute("aria-selected", "true")
        await me.page.goto(address)
        await expect(found).to_have_attribute("aria-selected", "true")

        # A file of git is in the tree before any folder above it was opened.
        await me.page.goto(address.replace("rooms%2Fattic.md", "halls%2Flong%2Fnorth.md"))
        await expect(tree.get_by_role("treeitem", name="north.md", exact=True)).to_have_attribute(
            "aria-selected", "true"
        )
        await me.page.goto(address)
        await expect(found).to_have_attribute("aria-selected", "true")

        # From the list, or with a filter, one click shows the place.
        await me.see("button", "List", exact=True).click()
        await me.see("searchbox", "Search resources").fill("lantern")
        hits = me.region("Resources").get_by_role("list", name="In the contents")
        await expect(hits.get_by_role("listitem").first).to_contain_text("lantern")
        await expect(me.region("Resources").get_by_text("Nothing has this name")).to_be_hidden()
        await me.see("searchbox", "Search resources").fill("nowhere-at-all")
        await expect(me.region("Resources").get_by_text("Nothing has this name")).to_be_visible()
        await preview.get_by_role("button", name="Show in the tree").click()
        await expect(me.see("searchbox", "Search resources")).to_have_value("")
        await expect(found).to_have_attribute("aria-selected", "true")
        await expect(found).to_be_in_viewport()

        # A part that the tree has no row for
        await me.page.goto(address.replace("attic.md", "attic.md%3Flines%3D1-1"))
        await preview.get_by_role("button", name="Show in the tree").click()
        await expect(me.see("status").filter(has_text="This resource is not in the tree")).to_be_attached()
