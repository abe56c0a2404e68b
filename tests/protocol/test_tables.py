"""Arrays and numbers of numpy as JSON values."""

from __future__ import annotations

from typing import Any

import pytest

from carrel.protocol.tables import array_values


class Imitation:
    """A class of another package with the same method."""

    def tolist(self) -> list[int]:
        return [1]


def test_an_array_is_its_lists_and_a_number_itself() -> None:
    import numpy

    for value, found in ((numpy.array([[1, 2]]), [[1, 2]]), (numpy.int64(3), 3), (numpy.float64(0.5), 0.5)):
        assert array_values(value) == found


@pytest.mark.parametrize("value", [Imitation(), object()])
def test_a_value_of_another_type_has_no_values(value: Any) -> None:
    with pytest.raises(TypeError, match="cannot be encoded as JSON"):
        array_values(value)


def test_another_object_of_numpy_has_no_values() -> None:
    import numpy

    with pytest.raises(TypeError, match="cannot be encoded as JSON"):
        array_values(numpy.random.default_rng())
