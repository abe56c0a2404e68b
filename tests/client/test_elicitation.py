"""Forms and pages: what is declared, what the user is told, what is refused."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from carrel.client.handlers import Form, Handlers, URLElicitation
from carrel.wire.client_features import ElicitResult
from support.asked_client import capabilities, response_to
from support.scripted_server import Partner, connected, in_turn
from support.server_connection import ALL, HANDSHAKES, JUNE, LATEST, NOVEMBER

pytestmark = [pytest.mark.requirement, pytest.mark.slow]


SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": "Ada"},
        "age": {"type": "integer", "minimum": 0, "default": 36},
        "sure": {"type": "boolean"},
    },
    "required": ["name"],
}
FORM: dict[str, Any] = {"message": "Who?", "requestedSchema": SCHEMA}
PAGE: dict[str, Any] = {"mode": "url", "message": "Sign in", "url": "https://example.com/in?x=1", "elicitationId": "e"}


async def nothing(_: Any) -> Any:
    return None


async def agree(_: Any) -> bool:
    return True


async def elicited(revision: str, params: dict[str, Any], **options: Any) -> Any:
    """Ask a client for input of its user; return the result or error with which it responds."""
    return await response_to("elicitation/create", revision, params, **options)


@pytest.mark.parametrize("revision", ALL)
@pytest.mark.parametrize(
    ("handlers", "declared"),
    [
        ({}, None),
        ({"elicit_form": nothing}, {"form": {}}),
        ({"elicit_url": agree}, {"url": {}}),
        ({"elicit_form": nothing, "elicit_url": agree}, {"form": {}, "url": {}}),
    ],
)
async def test_capabilities_follow_from_the_handlers_in_every_revision(
    revision: str, handlers: Any, declared: Any
) -> None:
    partner = Partner(revision)
    async with connected(partner, revision=revision, handlers=Handlers(**handlers)) as client:
        await client.call_tool("t")
    if revision < JUNE:
        declared = None
    elif revision == JUNE:
        declared = {} if declared and "form" in declared else None
    assert capabilities(partner).get("elicitation") == declared


@pytest.mark.parametrize("revision", [JUNE, NOVEMBER, LATEST])
@pytest.mark.parametrize("mode", [{}, {"mode": "form"}])
async def test_a_request_without_a_mode_is_a_form(revision: str, mode: dict[str, str]) -> None:
    async def fill_in(form: Form) -> dict[str, Any]:
        assert isinstance(form, Form)
        return {"name": "Grace", "sure": True}

    result = await elicited(revision, {**FORM, **mode}, handlers=Handlers(elicit_form=fill_in))
    assert result == {"action": "accept", "content": {"name": "Grace", "age": 36, "sure": True}}


@pytest.mark.parametrize("revision", [JUNE, NOVEMBER, LATEST])
async def test_the_user_is_told_which_server_asks_and_what_it_suggests(revision: str) -> None:
    seen: list[Form] = []

    async def look(form: Form) -> None:
        seen.append(form)

    await elicited(revision, FORM, handlers=Handlers(elicit_form=look))
    (form,) = seen
    assert form.message == "Who?"
    assert "partner" in form.server
    assert "stdio_relay.py" in form.server, "a server may call itself what it likes: where it is, is said too"
    assert form.schema == SCHEMA
    assert form.defaults == {"name": "Ada", "age": 36}


@pytest.mark.parametrize("revision", [JUNE, NOVEMBER, LATEST])
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (None, {"action": "decline"}),
        (ElicitResult(action="decline"), {"action": "decline"}),
        (ElicitResult(action="cancel"), {"action": "cancel"}),
        ({}, {"action": "accept", "content": {"name": "Ada", "age": 36}}),
    ],
)
async def test_a_user_may_agree_decline_or_leave(revision: str, answer: Any, expected: Any) -> None:
    async def decide(_: Form) -> Any:
        return answer

    assert await elicited(revision, FORM, handlers=Handlers(elicit_form=decide)) == expected


@pytest.mark.parametrize("answer", [{"name": 5}, {"age": -1}, {"age": "old"}, {"sure": "yes"}])
async def test_an_answer_that_does_not_fit_the_form_is_not_sent(answer: dict[str, Any]) -> None:
    async def fill_in(_: Form) -> Any:
        return answer

    error = await elicited(NOVEMBER, FORM, handlers=Handlers(elicit_form=fill_in))
    assert error == {"code": -32603, "message": "Internal error"}


@pytest.mark.parametrize("revision", [NOVEMBER, LATEST])
async def test_the_whole_address_and_its_host_are_there_to_be_shown(revision: str) -> None:
    seen: list[URLElicitation] = []

    async def look(page: URLElicitation) -> bool:
        seen.append(page)
        return True

    assert await elicited(revision, PAGE, handlers=Handlers(elicit_url=look)) == {"action": "accept"}
    (page,) = seen
    assert (page.url, page.host, page.message) == (PAGE["url"], "example.com", "Sign in")
    assert "partner" in page.server
    assert not page.suspicious


@pytest.mark.parametrize("revision", [NOVEMBER, LATEST])
async def test_a_page_may_be_declined(revision: str) -> None:
    async def refuse(_: URLElicitation) -> bool:
        return False

    assert await elicited(revision, PAGE, handlers=Handlers(elicit_url=refuse)) == {"action": "decline"}


@pytest.mark.parametrize(
    "url",
    [
        *(
            "javascript:alert(1)",
            "file:///etc/passwd",
            "data:text/html,x",
            "ftp://a/b",
            "http://example.com/",
            "ws://a",
        ),
        *("https://bank.com@evil.example/", "https://", "//example.com", "example.com", "", "https://a b/"),
        *("https://a\n.example/", "https://evil.example\\@bank.com/", "vscode://x", "https://[::1", "https://a:b/"),
    ],
)
async def test_an_address_that_may_do_harm_or_mislead_is_declined_unseen(url: str) -> None:
    async def look(_: URLElicitation) -> bool:
        raise AssertionError("it was shown")

    assert await elicited(NOVEMBER, {**PAGE, "url": url}, handlers=Handlers(elicit_url=look)) == {"action": "decline"}


async def test_a_host_that_may_be_taken_for_another_one_is_marked() -> None:
    seen: list[URLElicitation] = []

    async def look(page: URLElicitation) -> bool:
        seen.append(page)
        return False

    for host in ("xn--pple-43d.com", "exаmple.com"):  # the second one has a Cyrillic letter
        await elicited(NOVEMBER, {**PAGE, "url": f"https://{host}/"}, handlers=Handlers(elicit_url=look))
    assert [page.suspicious for page in seen] == [True, True]


async def test_a_page_is_neither_looked_at_nor_opened_by_the_client() -> None:
    visits = 0

    async def visit(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal visits
        visits += 1
        writer.close()

    web = await asyncio.start_server(visit, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{web.sockets[0].getsockname()[1]}/in"
    assert await elicited(NOVEMBER, {**PAGE, "url": url}, handlers=Handlers(elicit_url=agree)) == {"action": "accept"}
    web.close()
    await web.wait_closed()
    assert visits == 0


@pytest.mark.parametrize(
    ("handlers", "params", "code"),
    [
        ({}, FORM, -32601),
        ({}, PAGE, -32601),
        ({"elicit_form": nothing}, PAGE, -32602),
        ({"elicit_url": agree}, FORM, -32602),
        ({"elicit_form": nothing}, {"message": "?"}, -32602),
        ({"elicit_url": agree}, {"mode": "url", "message": "?"}, -32602),
    ],
)
async def test_undeclared_or_invalid_elicitation_is_an_error(handlers: Any, params: Any, code: int) -> None:
    assert (await elicited(NOVEMBER, params, handlers=Handlers(**handlers)))["code"] == code


@pytest.mark.parametrize("revision", [revision for revision in HANDSHAKES if revision < JUNE])
async def test_revisions_without_elicitation_have_none(revision: str) -> None:
    assert (await elicited(revision, FORM, handlers=Handlers(elicit_form=nothing)))["code"] == -32601


async def test_completion_of_an_elicitation_that_was_not_visited_is_ignored() -> None:
    pages: list[URLElicitation] = []

    async def visit(page: URLElicitation) -> bool:
        pages.append(page)
        return True

    partner = Partner(NOVEMBER)
    async with connected(partner, handlers=Handlers(elicit_url=visit)) as client:
        await client.ping()
        partner.notify("notifications/elicitation/complete", {"elicitationId": "never"})
        partner.ask("elicitation/create", PAGE)
        await partner.until(None)
        assert not pages[0].completed.is_set()
        for _ in range(2):
            partner.notify("notifications/elicitation/complete", {"elicitationId": "e"})
        await asyncio.wait_for(pages[0].completed.wait(), 60)
        await client.ping()


async def test_pages_that_are_required_first_are_visited_and_the_request_is_made_again() -> None:
    error = {"code": -32042, "message": "first", "data": {"elicitations": [PAGE]}}
    partner = Partner(NOVEMBER, {"tools/call": in_turn({"error": error}, {"content": []})})
    seen: list[str] = []

    async def visit(page: URLElicitation) -> bool:
        seen.append(page.url)
        asyncio.get_running_loop().call_soon(
            partner.notify, "notifications/elicitation/complete", {"elicitationId": "e"}
        )
        return True

    async with connected(partner, handlers=Handlers(elicit_url=visit)) as client:
        await client.call_tool("t")
    assert seen == [PAGE["url"]]
    assert len(partner.sent_of("tools/call")) == 2
