"""Lists of providers that are too long to be read."""

from __future__ import annotations

import pytest

from carrel.catalog.paging import all_of
from carrel.catalog.provider import Page, Request
from carrel.errors import ResourceTooLarge


async def test_the_error_of_a_list_that_is_too_long_is_not_about_a_resource() -> None:
    def list_numbers(request: Request) -> Page[int]:
        return Page(range(5))

    with pytest.raises(ResourceTooLarge) as raised:
        [each async for each in all_of(list_numbers, limit=4)]
    assert str(raised.value) == raised.value.message == "The list has more than 4 entries or pages"
