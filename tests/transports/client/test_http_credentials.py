"""Who asks: the client's end of Streamable HTTP with credentials, and without."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from carrel.errors import (
    AuthorizationError,
    PeerError,
    TransportError,
)
from carrel.transports.client.transport import AuthorizationRejection
from carrel.wire.base import PageParams
from support.http_scripts import client_of, failure_of, never, outcome_of
from support.scripted_http_server import Asked, scripted


class Passport:
    """Credentials whose token changes with every refusal, as long as there are any."""

    principal = "somebody"

    def __init__(self, *tokens: str) -> None:
        self.tokens = list(tokens)
        self.rejections: list[AuthorizationRejection] = []

    async def headers(self, url: str, method: str = "POST") -> Mapping[str, str]:
        return {"Authorization": f"Bearer {self.tokens[0]}"} if self.tokens else {}

    async def rejected(self, rejection: AuthorizationRejection) -> bool:
        self.rejections.append(rejection)
        if len(self.tokens) < 2:
            return False
        self.tokens.pop(0)
        return True

    async def close(self) -> None:
        raise AssertionError("they belong to somebody else")


def guarded(token: str, status: int = 401) -> Any:
    async def serve(asked: Asked) -> None:
        if asked.headers.get("authorization") == f"Bearer {token}":
            await asked.result()
        else:
            await asked.respond(status, b"who?", www_authenticate='Bearer realm="x"')

    return serve


async def test_without_credentials_a_401_says_how_to_give_them() -> None:
    failure = await failure_of(guarded("secret"))
    assert type(failure) is AuthorizationError
    assert "auth=" in str(failure)


async def test_a_token_in_the_headers_is_sent() -> None:
    outcome = await outcome_of(guarded("secret"), headers={"Authorization": "Bearer secret"})
    assert outcome["result"] == {}


@pytest.mark.parametrize("status", [401, 403])
async def test_credentials_are_asked_for_better_ones(status: int) -> None:
    passport = Passport("old", "new", "secret")
    async with (
        scripted(guarded("secret", status)) as server,
        client_of(server, auth=passport, headers={"authorization": "Bearer mine"}) as client,
    ):
        assert await client.ask("list_resources", PageParams()) == {}
        assert [one._replace(sent=None) for one in passport.rejections] == [
            AuthorizationRejection(server.url, status, ['Bearer realm="x"'], client.revision.name)
        ] * 2
        assert [one.sent for one in passport.rejections] == [
            {"Authorization": "Bearer old"},
            {"Authorization": "Bearer new"},
        ]
        assert [asked.headers["authorization"] for asked in server.asked] == [
            "Bearer old",
            "Bearer new",
            "Bearer secret",
        ]


@pytest.mark.parametrize("status", [401, 403])
async def test_credentials_are_asked_three_times_and_no_more(status: int) -> None:
    passport = Passport(*"abcdefgh")
    async with scripted(guarded("secret", status)) as server, client_of(server, auth=passport) as client:
        failure = await client.recorder.failure(client.start("list_resources", PageParams()))
        assert type(failure) is AuthorizationError
        assert len(server.asked) == 4
        assert len(passport.rejections) == 3


async def test_credentials_that_cannot_be_had_fail_the_request() -> None:
    class Lost(Passport):
        async def headers(self, url: str, method: str = "POST") -> Mapping[str, str]:
            raise AuthorizationError("the browser was closed")

    failure = await failure_of(never, auth=Lost())
    assert type(failure) is AuthorizationError
    assert str(failure) == "the browser was closed"


async def test_broken_credentials_fail_the_request_and_nothing_else() -> None:
    class Broken(Passport):
        async def headers(self, url: str, method: str = "POST") -> Mapping[str, str]:
            raise ZeroDivisionError

    assert isinstance(await failure_of(never, auth=Broken()), TransportError)


async def test_a_403_that_does_not_ask_who_it_is_is_told_as_it_is() -> None:
    async def forbid(asked: Asked) -> None:
        await asked.answer({"jsonrpc": "2.0", "error": {"code": -32600, "message": "not from here"}}, status=403)

    failure = await failure_of(forbid, auth=Passport("a"))
    assert isinstance(failure, PeerError)
    assert failure.status == 403
