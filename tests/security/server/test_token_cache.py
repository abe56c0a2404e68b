"""The cache of verified tokens: how long they are in it, and how many."""

from __future__ import annotations

import pytest

from carrel.protocol.principal import Principal
from carrel.security.server import token_cache
from carrel.security.server.token_cache import TokenCache
from support.clock import Clock

EPOCH = 1_000.0


def test_a_token_is_kept_for_its_seconds() -> None:
    clock = Clock()
    cache, alice = TokenCache(60, 10, clock), Principal(subject="alice")
    cache.put("token", alice)
    clock.now += 59
    assert cache.get("token", EPOCH) is alice
    assert cache.get("other", EPOCH) is None
    clock.now += 1
    assert cache.get("token", EPOCH) is None
    clock.now -= 1
    assert cache.get("token", EPOCH) is None, "what has expired is removed"


@pytest.mark.parametrize(("now", "kept"), [(EPOCH + 9, True), (EPOCH + 10, False)])
def test_a_token_that_has_expired_by_more_than_the_leeway_is_not_used(now: float, kept: bool) -> None:
    cache = TokenCache(60, 10, Clock())
    cache.put("token", Principal(subject="alice", expires=EPOCH))
    assert (cache.get("token", now) is not None) is kept


def test_the_oldest_of_too_many_tokens_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_cache, "MAX_TOKENS", 3)
    cache = TokenCache(60, 10, Clock())
    for name in "abcd":
        cache.put(name, Principal(subject=name))
    assert [cache.get(name, EPOCH) is not None for name in "abcd"] == [False, True, True, True]
    cache.clear()
    assert cache.get("d", EPOCH) is None


def test_nothing_is_kept_for_no_seconds() -> None:
    cache = TokenCache(0, 10, Clock())
    cache.put("token", Principal(subject="alice"))
    assert not cache._found
