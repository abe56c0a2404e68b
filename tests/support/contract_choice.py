"""Tests of the contract of providers that ``make test`` runs for a class whose other tests repeat another class's.

A class names them as ``ordinary``. ``make exhaustive`` runs all tests of the contract for every class.
"""

from __future__ import annotations

from typing import Any

__all__ = ["BACKEND", "DRIVER", "VARIANT", "is_repeated"]

#: For a variant of a source: what it lists, reads, refuses, and reports as changed.
VARIANT = frozenset(
    {
        "test_pages_of_any_size_give_everything_once_in_the_same_order",
        "test_what_is_listed_is_described_as_the_protocol_wants",
        "test_what_is_listed_can_be_read",
        "test_what_is_not_there_is_not_found",
        "test_what_cannot_be_read_is_refused_with_a_documented_error",
        "test_changes_are_reported_as_what_they_are",
        "test_every_accepted_subscription_is_notified",
    }
)

#: For a source that reads by a library or a server of its own: limits, concurrent calls, and leaks as well.
BACKEND = VARIANT | {
    "test_what_is_over_the_limit_is_refused_with_advice",
    "test_everything_may_be_asked_for_at_once",
    "test_stop_lets_go_of_everything",
    "test_no_operation_leaves_a_descriptor_open",
}

#: For a database: its rows are read for search, completion and the tool, by statements in its dialect.
DRIVER = BACKEND | {
    "test_completion_suggests_what_goes_on_from_what_is_typed",
    "test_search_finds_best_first_and_no_more_than_asked_for",
    "test_a_tool_can_be_called",
}


def is_repeated(kind: type[Any] | None, name: str) -> bool:
    """Return whether a test of a class repeats a test of another class."""
    ordinary = getattr(kind, "ordinary", None)
    return ordinary is not None and name not in ordinary and name not in vars(kind)
