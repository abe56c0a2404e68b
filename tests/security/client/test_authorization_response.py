"""What a browser may come back with, and what it may not (RFC 9207, mix-up attacks)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from carrel.errors import AuthorizationError
from carrel.security.client import OAuth
from support.authorization_server import Authority, visit

Make = Callable[..., OAuth]


@pytest.mark.parametrize("advertised", [True, False, None])
@pytest.mark.parametrize(
    ("issuer", "fits"),
    [
        ("{url}", True),
        (None, None),
        ("https://evil.example", False),
        ("{url}/", False),
        ("{upper}", False),
        ("{url}%2F", False),
        ("", False),
    ],
)
async def test_the_answer_has_to_be_of_the_server_that_was_asked(
    authority: Authority, user: Make, advertised: bool | None, issuer: str | None, fits: bool | None
):
    authority.metadata["authorization_response_iss_parameter_supported"] = advertised
    upper = authority.url.replace("http", "HTTP")
    authority.response = {"iss": None if issuer is None else issuer.format(url=authority.url, upper=upper)}
    goes = not advertised if fits is None else fits
    if goes:
        assert await visit(user(), authority.resource) == 200
    else:
        with pytest.raises(AuthorizationError, match=r"The authorization response (is not from|does not name)"):
            await visit(user(), authority.resource)
    assert len(authority.at("/token")) == int(goes)  # the code went nowhere


@pytest.mark.parametrize("advertised", [True, None])
async def test_a_server_whose_answers_do_not_name_it_gets_a_redirect_uri_of_its_own(
    authority: Authority, user: Make, advertised: bool | None
):
    authority.metadata["authorization_response_iss_parameter_supported"] = advertised
    authority.response = {"iss": authority.url if advertised else None}
    pages = []

    async def browse(url: str) -> str:
        pages.append(url)
        return await authority.browse(url)

    who = user(authorize=browse, redirect_uri="http://127.0.0.1/callback")
    who.redirect_uri_of = lambda issuer: f"http://127.0.0.1/callback/{issuer == authority.url}"
    assert await visit(who, authority.resource) == 200
    assert ("callback%2FTrue" in pages[0]) == (not advertised)


async def test_the_error_of_another_server_is_not_shown(authority: Authority, user: Make):
    authority.response = {"iss": "https://evil.example", "error": "x", "error_description": "Call 555-1234"}
    with pytest.raises(AuthorizationError, match="is not from") as caught:
        await visit(user(), authority.resource)
    assert "555" not in str(caught.value)
    assert "evil" not in str(caught.value)


@pytest.mark.parametrize("state", [None, "", "wrong", "é"])
async def test_an_answer_to_another_request_is_not_taken(authority: Authority, user: Make, state: str | None):
    authority.response = {"state": state}
    with pytest.raises(AuthorizationError, match="belongs to another request"):
        await visit(user(), authority.resource)
    assert authority.at("/token") == []


async def test_a_user_who_says_no_is_told_so_in_words(authority: Authority, user: Make):
    authority.response = {"error": "access_denied", "error_description": "You\r\nsaid\x1b[31m no", "code": None}
    with pytest.raises(AuthorizationError, match=r"did not authorize this application: access_denied") as caught:
        await visit(user(), authority.resource)
    assert str(caught.value).isprintable()


async def test_an_answer_without_a_code_is_none(authority: Authority, user: Make):
    authority.response = {"code": None}
    with pytest.raises(AuthorizationError, match="has no code"):
        await visit(user(), authority.resource)


@pytest.mark.parametrize("name", ["code", "state", "iss"])
async def test_an_answer_that_says_a_thing_twice_is_not_taken(authority: Authority, user: Make, name: str):
    async def browse(url: str) -> str:
        return f"{await authority.browse(url)}&{name}=other"

    with pytest.raises(AuthorizationError, match="repeats"):
        await visit(user(authorize=browse), authority.resource)
    assert authority.at("/token") == []


@pytest.mark.parametrize("answer", ["", "nonsense", "http://127.0.0.1/callback", "http://[/?code=1"])
async def test_an_answer_that_is_no_address_is_an_error_in_words(authority: Authority, user: Make, answer: str):
    async def browse(url: str) -> str:
        return answer

    with pytest.raises(AuthorizationError, match=r"redirect (URL )?of the browser"):
        await visit(user(authorize=browse), authority.resource)


@pytest.mark.parametrize(("parameters", "fits"), [(50, True), (51, False)])
async def test_an_answer_has_at_most_fifty_parameters(authority: Authority, user: Make, parameters: int, fits: bool):
    async def browse(url: str) -> str:
        answer = await authority.browse(url)
        return answer + "".join(f"&x{number}=" for number in range(parameters - answer.count("=")))

    if fits:
        assert await visit(user(authorize=browse), authority.resource) == 200
        return
    with pytest.raises(AuthorizationError, match="is not valid"):
        await visit(user(authorize=browse), authority.resource)
    assert authority.at("/token") == []
