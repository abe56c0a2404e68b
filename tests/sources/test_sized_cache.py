"""Cache with a limit to the sizes of its values."""

from carrel.sources.sized_cache import SizedCache


def test_the_least_recently_used_values_make_room() -> None:
    cache: SizedCache[str, str] = SizedCache(3)
    for key in "abc":
        cache.put(key, key.upper(), 1)
    assert cache.get("a") == "A"
    cache.put("d", "D", 1)
    assert [key for key in "abcd" if key in cache] == ["a", "c", "d"]
    assert cache.size == 3


def test_a_value_larger_than_the_cache_is_not_kept_and_replaces_the_earlier_one() -> None:
    cache: SizedCache[str, str] = SizedCache(3)
    cache.put("a", "old", 1)
    cache.put("b", "other", 1)
    cache.put("a", "new", 4)
    assert cache.get("a") is None
    assert cache.get("b") == "other"
    assert cache.size == 1


def test_dropped_and_cleared_values_take_no_room() -> None:
    cache: SizedCache[str, str] = SizedCache(3)
    cache.put("a", "A", 2)
    cache.put("a", "A", 3)
    cache.drop("missing")
    assert cache.size == 3
    cache.drop("a")
    assert cache.size == 0
    cache.put("b", "B", 1)
    cache.clear()
    assert "b" not in cache
    assert cache.size == 0
