"""Arrays and numbers of numpy as JSON values."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

from carrel.protocol.tables import array_values


class Imitation:
    """A class of another package with the same method."""

    def tolist(self) -> list[int]:
        return [1]


@pytest.mark.parametrize(
    ("value", "found"), [(numpy.array([[1, 2]]), [[1, 2]]), (numpy.int64(3), 3), (numpy.float64(0.5), 0.5)]
)
def test_an_array_is_its_lists_and_a_number_itself(value: Any, found: Any) -> None:
    assert array_values(value) == found


@pytest.mark.parametrize("value", [Imitation(), object(), numpy.random.default_rng()])
def test_a_value_of_another_type_has_no_values(value: Any) -> None:
    with pytest.raises(TypeError, match="cannot be encoded as JSON"):
        array_values(value)
