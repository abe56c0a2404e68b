"""Lists for callers to whom rules for resources do not show everything."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from carrel import Server
from carrel.catalog.access import visible_to
from carrel.catalog.provider import Hit, Page, Provider, Request
from carrel.catalog.transforms.transform import Transform
from carrel.errors import ResourceForbidden
from carrel.protocol.principal import Principal
from carrel.security.server.scopes import Scopes
from carrel.sources.files.options import FilesOptions
from carrel.sources.files.source import FilesSource
from carrel.sources.folder.position import START, TreePosition
from carrel.sources.folder.sandbox import SandboxRoot
from carrel.sources.folder.selection import FileSelection
from carrel.sources.folder.tree import Tree
from carrel.sources.folder.tree_view import TreeView
from carrel.sources.folder.work import Work
from carrel.testing.caller import Reports
from carrel.wire.completion import Completion
from carrel.wire.resources import ReadResourceResult, Resource, ResourceTemplate, TextResourceContents
from support.protected_folder import guarded_app


def names(result: dict[str, Any], field: str = "resources") -> list[str]:
    return [entry.get("uri") or entry["uriTemplate"] for entry in result["result"][field]]


def listed(server: Any, caller: Principal) -> list[str]:
    """Return all pages of resources/list, as a caller sees them."""
    page = server.ask(caller, "resources/list")
    found = names(page)
    while "nextCursor" in page["result"]:
        page = server.ask(caller, "resources/list", cursor=page["result"]["nextCursor"])
        found += names(page)
    return found


def shelf() -> Server:
    app = Server("shelf", page_size=3, scope="public")
    for number in range(6):
        app.resources.add(f"memo://{'secret' if number % 2 else 'open'}/{number}", str(number))
    app.resource("memo://secret/{name}", name="hidden")(lambda name: name)
    app.resource("memo://{area}/notes/{name}", name="open")(lambda area, name: name)
    app.resource("plain://{name}", name="plain")(lambda name: name)

    @app.resource("memo://open/by/{area}/{name}", name="completed")
    async def completed(area: str, name: str) -> str:
        return name

    return app


RULES = {"memo://secret/*": "vault"}


def test_pages_are_those_of_a_list_without_what_is_hidden():
    app, open_only = shelf(), shelf()
    for number in range(6):
        app.resources.add(f"memo://a-secret/{number}", str(number))
        app.resources.add(f"memo://z-open/{number}", str(number))
        open_only.resources.add(f"memo://z-open/{number}", str(number))
    for number in (1, 3, 5):
        open_only.resources.remove(f"memo://secret/{number}")
    rules = {**RULES, "memo://a-secret/*": "vault"}
    with guarded_app(app, rules) as server, guarded_app(open_only, rules) as other:
        params: dict[str, Any] = {}
        for _ in range(3):
            page = server.ask(server.principal(), "resources/list", **params)
            assert page == other.ask(other.principal(), "resources/list", **params)
            assert len(names(page)) == 3
            params = {"cursor": page["result"].get("nextCursor")}
        assert params == {"cursor": None}


def test_a_page_is_encoded_once_for_each_view_and_never_given_to_another():
    app = shelf()
    with guarded_app(app, RULES) as server:
        callers = [server.principal("vault"), server.principal(), server.principal("x"), server.principal("vault", "x")]
        for _ in range(2):
            found = [listed(server, caller) for caller in callers]
            assert found[0] == found[3] != found[1] == found[2]
        assert len(app.resources.static.entries.pages) == 3  # two and one
        app.resources.add("memo://open/7", "7")
        assert not app.resources.static.entries.pages


def test_results_that_depend_on_the_caller_are_private_to_caches():
    with guarded_app(shelf(), RULES) as server:
        for caller in (server.principal("vault"), server.principal()):
            for method in ("resources/list", "resources/templates/list"):
                assert server.ask(caller, method)["result"]["cacheScope"] == "private", method
            for uri in ("memo://open/0", "plain://x"):
                assert server.ask(caller, "resources/read", uri=uri)["result"]["cacheScope"] == "public", uri
        for uri in ("memo://secret/1", "memo://secret/%78"):
            reply = server.ask(server.principal("vault"), "resources/read", uri=uri)
            assert reply["result"]["cacheScope"] == "private", uri
    with guarded_app(shelf(), {"tools/call": "t"}) as server:
        assert server.ask(server.principal(), "resources/list")["result"]["cacheScope"] == "public"


def test_resources_that_links_may_lead_to_are_private_to_caches(tmp_path: Path):
    (tmp_path / "a.txt").touch()
    app = Server("links", scope="public")
    app.add_provider(FilesSource(tmp_path))
    with guarded_app(app, {f"{tmp_path.as_uri()}/priv/*": "vault"}) as server:
        reply = server.ask(server.principal("vault"), "resources/read", uri=f"{tmp_path.as_uri()}/a.txt")
        assert reply["result"]["cacheScope"] == "private"


def test_templates_of_which_everything_is_hidden_are_not_listed():
    with guarded_app(shelf(), {**RULES, "plain://*": "vault"}) as server:
        kept = ["memo://open/by/{area}/{name}", "memo://{area}/notes/{name}"]
        page = server.ask(server.principal(), "resources/templates/list")
        assert names(page, "resourceTemplates") == kept
        assert "nextCursor" not in page["result"]


def test_suggestions_that_name_what_is_hidden_are_left_out():
    app = Server("shelf")

    @app.resource("memo://{area}/{name}")
    async def memo(area: str, name: str) -> str:
        return name

    @memo.complete("area")
    async def areas(prefix: str) -> list[str]:
        return ["open", *(["secret"] * 150), "shut"]

    @memo.complete("name")
    def some(prefix: str) -> Completion:
        return Completion(["plan", "map"], total=2)

    with guarded_app(app, {"memo://secret/*": "vault", "memo://open/plan": "plan"}) as server:

        def suggest(who: Principal, name: str, **known: str) -> Any:
            return server.ask(
                who,
                "completion/complete",
                ref={"type": "ref/resource", "uri": "memo://{area}/{name}"},
                argument={"name": name, "value": ""},
                context={"arguments": known},
            )["result"]["completion"]

        assert suggest(server.principal(), "area") == {"values": ["open", "shut"], "total": 2, "hasMore": False}
        assert suggest(server.principal(), "name", area="open") == {"values": ["map"]}
        assert suggest(server.principal("plan"), "name", area="open") == {"values": ["plan", "map"], "total": 2}
        assert suggest(server.principal("vault", "plan"), "area")["total"] == 152


class Records(Provider):
    """A provider that knows nothing of views: the catalog looks at what it finds."""

    name = "records"
    prefixes = ("db:",)
    entries = ("open", "secret", "odd")

    async def list_resources(self, request: Request) -> Page[Resource]:
        index = int(request.cursor or 0)
        more = index + request.limit < len(self.entries)
        found = [Resource(f"db://{name}", name) for name in self.entries[index : index + request.limit]]
        return Page(found, str(index + request.limit) if more else None)

    async def list_templates(self, request: Request) -> Page[ResourceTemplate]:
        return Page([ResourceTemplate("db://{name}", "record")])

    async def read_resource(self, uri: str, request: Request) -> ReadResourceResult:
        return ReadResourceResult(contents=[TextResourceContents(uri, "record")])

    async def list_directory(self, uri: str, request: Request) -> Page[Resource]:
        return await self.list_resources(request)

    async def complete(self, *arguments: Any) -> Completion:
        return Completion(list(self.entries), total=3)

    async def search(self, query: str, request: Request) -> Page[Hit]:
        return Page([Hit(Resource(f"db://{name}", name), 1.0) for name in self.entries])


@pytest.mark.parametrize("size", [1, 2, 10])
def test_a_provider_that_knows_nothing_of_views_is_filtered(size: int):
    app = Server("records", page_size=size)
    app.add_provider(Records())
    app.skills()
    app.add_resource_tools()
    with guarded_app(app, {"db://secret": "vault"}) as server:
        caller, found, cursor = server.principal(), list[str](), {}
        while True:
            result = server.ask(caller, "resources/list", **cursor)
            found += names(result)
            if "nextCursor" not in result["result"]:
                break
            cursor = {"cursor": result["result"]["nextCursor"]}
        assert found == ["db://open", "db://odd"]
        inside = server.ask(caller, "resources/directory/read", uri="db://open")
        assert "db://secret" not in names(inside)
        for tool, arguments in (("search_resources", {"query": "x"}), ("list_resources", {"directory": "db://open"})):
            reply = server.ask(caller, "tools/call", name=tool, arguments=arguments)
            assert "open" in json.dumps(reply["result"]["content"])
            assert "secret" not in json.dumps(reply), tool
        completion = server.ask(
            caller,
            "completion/complete",
            ref={"type": "ref/resource", "uri": "db://{name}"},
            argument={"name": "name", "value": ""},
        )
        assert completion["result"]["completion"] == {"values": ["open", "odd"]}


def test_listeners_hear_of_what_they_may_know_of_only(tmp_path: Path):
    app = shelf()
    with guarded_app(app, {"resources/read memo://secret/*": "vault"}) as server:
        wanted = ["memo://open/0", "memo://secret/1", "MEMO://secret/3", "memo://nowhere"]
        reply = server.ask(server.principal(), "subscriptions/listen", notifications={"resourceSubscriptions": wanted})
        assert reply["params"]["notifications"]["resourceSubscriptions"] == ["memo://open/0"]
        refused = server.ask(server.principal(), "resources/subscribe", uri="memo://secret/1")
        missing = server.ask(server.principal(), "resources/subscribe", uri="memo://nowhere")
        assert refused["error"]["message"] == missing["error"]["message"] == "Resource not found"
        assert "result" in server.ask(server.principal("vault"), "resources/subscribe", uri="memo://secret/1")


def test_a_listener_with_rules_hears_and_is_told_the_end(tmp_path: Path):
    app = shelf()
    with guarded_app(app, RULES) as server:

        async def listen() -> tuple[list[Any], Any]:
            answer, channel = server.start(
                server.principal(), "subscriptions/listen", notifications={"resourceSubscriptions": ["memo://open/0"]}
            )
            work = asyncio.ensure_future(answer)
            while not channel.sent:
                await asyncio.sleep(0)
            app.resources.changed("memo://open/0", "memo://secret/1")
            while len(channel.sent) < 2:
                await asyncio.sleep(0)
            app.endpoint.end_streams()
            return channel.sent, json.loads(await work)

        sent, reply = server.runner.run(listen())
        assert sent[1]["method"] == "notifications/resources/updated"
        assert sent[1]["params"]["uri"] == "memo://open/0"
        assert reply["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == 1
        assert len(app.endpoint.runtime.hub) == 0


def test_a_provider_in_a_wrapper_keeps_its_wrapper(tmp_path: Path):
    (tmp_path / "a.txt").write_text("TREASURE")

    class Wrapper(Transform):
        async def read_resource(self, uri: str, request: Request) -> ReadResourceResult:
            return ReadResourceResult(contents=[TextResourceContents(uri, "wrapped")])

    app = Server("wrapped")
    app.add_provider(Wrapper(FilesSource(tmp_path)))
    with guarded_app(app, {"other://*": "other"}) as server:
        reply = server.ask(server.principal(), "resources/read", uri=(tmp_path / "a.txt").as_uri())
        assert reply["result"]["contents"][0]["text"] == "wrapped"


def make_skill(folder: Path, name: str) -> None:
    (folder / name).mkdir(parents=True)
    (folder / name / "SKILL.md").write_text(f"---\nname: {name}\ndescription: It helps.\n---\n")
    (folder / name / "notes.md").write_text("TREASURE")


def test_skills_and_files_of_skills_are_hidden_too(tmp_path: Path):
    make_skill(tmp_path, "open-skill")
    make_skill(tmp_path, "secret-skill")
    (tmp_path / "open-skill" / "link.md").symlink_to("../secret-skill/notes.md")
    app = Server("skills")
    app.skills(tmp_path)
    with guarded_app(app, {"skill://secret-skill/*": "vault", "skill://open-skill/notes.md": "notes"}) as server:
        for caller, some in ((server.principal(), True), (server.principal("vault", "notes"), False)):
            listed = server.ask(caller, "skills/list")["result"]["skills"]
            assert len(listed) == (1 if some else 2)
            [skill] = [one for one in listed if one["uri"] == "skill://open-skill/SKILL.md"]
            assert server.ask(caller, "skills/get", uri=skill["uri"])["result"]["skill"] == skill
            assert len(skill["resources"]) == (1 if some else 3)
            files = names(server.ask(caller, "resources/list"))
            assert len(files) == (1 if some else 5)
            inside = names(server.ask(caller, "resources/directory/read", uri="skill://open-skill"))
            assert len(inside) == (1 if some else 3)
            reply = server.ask(caller, "resources/read", uri="skill://open-skill/link.md")
            assert ("error" in reply) == some
            for name in ("link.md", "absent.md"):  # what is hidden cannot be told from what is not there
                assert "result" in server.ask(caller, "resources/subscribe", uri=f"skill://OPEN-skill/{name}")
            hidden = server.ask(caller, "skills/get", uri="SKILL://Secret-Skill/SKILL.md")
            assert isinstance(hidden, dict) != some


def test_links_out_of_the_folder_are_followed_to_where_they_lead(tmp_path: Path):
    root, other = tmp_path / "root", tmp_path / "other"
    (root / "priv").mkdir(parents=True)
    other.mkdir()
    (root / "priv" / "x.txt").write_text("TREASURE")
    (other / "y.txt").write_text("TREASURE")
    (other / "back").symlink_to(root / "priv")
    (root / "away").symlink_to(other)
    app = Server("links")
    app.add_provider(FilesSource(root, FilesOptions(follow_symlinks=True)))
    rules = {f"{root.as_uri()}/priv/*": "vault", f"{other.as_uri()}/*": "other"}
    with guarded_app(app, rules) as server:
        for path, scope in (("away/y.txt", "other"), ("away/back/x.txt", "vault")):
            uri = f"{root.as_uri()}/{path}"
            lacking = server.principal(*({"vault", "other"} - {scope}))
            assert "error" in server.ask(lacking, "resources/read", uri=uri), path
            assert uri not in names(server.ask(lacking, "resources/list")), path
            assert "result" in server.ask(server.principal("vault", "other"), "resources/read", uri=uri), path


def test_a_subscription_to_a_link_to_something_hidden_is_answered_like_one_to_an_absent_name(tmp_path: Path):
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "x.txt").write_text("TREASURE")
    (tmp_path / "link.txt").symlink_to("secret/x.txt")
    (tmp_path / "folder").symlink_to("secret")
    root = tmp_path.as_uri()
    app = Server("links")
    app.add_provider(FilesSource(tmp_path))
    with guarded_app(app, {f"{root}/secret/*": "vault"}) as server:
        for hidden, absent in (("link.txt", "none.txt"), ("folder/x.txt", "none/x.txt"), ("folder", "none")):
            replies = [
                str(server.ask(server.principal(), method, uri=f"{root}/{name}")).replace(name, "NAME")
                for name in (hidden, absent)
                for method in ("resources/subscribe", "resources/unsubscribe")
            ]
            assert replies[:2] == replies[2:], hidden


def test_rules_hold_for_the_real_place_of_a_folder_that_is_shared_by_a_link(tmp_path: Path):
    (tmp_path / "v1" / "priv").mkdir(parents=True)
    (tmp_path / "v1" / "priv" / "x.txt").write_text("TREASURE")
    (tmp_path / "v1" / "open.txt").write_text("open")
    (tmp_path / "current").symlink_to("v1")
    app = Server("links")
    app.add_provider(FilesSource(tmp_path / "current"))
    with guarded_app(app, {f"{(tmp_path / 'v1').resolve().as_uri()}/priv/*": "vault"}) as server:
        root = (tmp_path / "current").as_uri()
        assert names(server.ask(server.principal(), "resources/list")) == [root, f"{root}/open.txt"]
        assert "error" in server.ask(server.principal(), "resources/read", uri=f"{root}/priv/x.txt")
        assert "result" in server.ask(server.principal("vault"), "resources/read", uri=f"{root}/priv/x.txt")


def test_no_position_in_a_list_names_what_is_hidden(tmp_path: Path):
    for number in range(30):
        (tmp_path / f"{'secret' if number % 10 else 'open'}-{number:02}").touch()
    whole = Tree(SandboxRoot(str(tmp_path)), FileSelection())
    access = visible_to(Scopes({f"{tmp_path.as_uri()}/secret-*": "vault"}, {}).view(frozenset()))
    assert access is not None
    uri = tmp_path.as_uri()
    view = TreeView(whole, str(tmp_path), lambda parts: "/".join((uri, *parts)), access)
    position: TreePosition | None = START
    found = []
    while position is not None:
        assert not any("secret" in name for name in position.parts)
        entries, position = view.page(position, 2, Work(4))
        found += [entry.parts[-1] for entry in entries]
    assert found == ["open-00", "open-10", "open-20"]


async def test_a_link_that_is_replaced_between_two_steps_gives_nothing_away(tmp_path: Path):
    (tmp_path / "priv").mkdir()
    (tmp_path / "priv" / "x.txt").write_text("TREASURE")
    (tmp_path / "open.txt").write_text("open")
    (tmp_path / "link").symlink_to("open.txt")
    access = visible_to(Scopes({f"{tmp_path.as_uri()}/priv/*": "vault"}, {}).view(frozenset()))
    assert access is not None
    source = FilesSource(tmp_path)
    await source.start(Reports())
    try:
        link, request = f"{tmp_path.as_uri()}/link", Request(visible=access)
        assert await source.shows(link, request)
        (tmp_path / "link").unlink()
        (tmp_path / "link").symlink_to("priv/x.txt")
        with pytest.raises(ResourceForbidden):
            await source.read_resource(link, request)
        assert not await source.shows(link, request)
        assert (await source.read_resource(link, Request())).contents
    finally:
        await source.stop()


def test_a_server_without_rules_for_resources_makes_no_views(tmp_path: Path):
    with guarded_app(shelf(), {"*": "base", "resources/list": "base"}) as server:
        caller = server.principal("base")
        assert caller.view is not None
        assert (caller.view.hides, caller.view.key) == (False, "")
        assert len(names(server.ask(caller, "resources/list"))) == 3
