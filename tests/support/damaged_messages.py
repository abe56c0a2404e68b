"""Messages with bytes changed, left out, put in and said twice."""

from __future__ import annotations

from hypothesis import strategies as st

__all__ = ["DAMAGE", "damaged"]

#: What is done to a message: kinds, places and bytes.
DAMAGE = st.lists(
    st.tuples(st.sampled_from(["flip", "cut", "insert", "repeat"]), st.integers(0, 2**16), st.binary(max_size=4)),
    max_size=4,
)


def damaged(message: bytes, damage: list[tuple[str, int, bytes]]) -> bytes:
    """A message after something was done to it."""
    data = bytearray(message)
    for kind, where, what in damage:
        at = where % (len(data) + 1)
        if kind == "flip" and at < len(data):
            data[at] ^= 1 << (where % 8)
        elif kind == "cut":
            del data[at : at + 1 + where % 7]
        elif kind == "insert":
            data[at:at] = what
        else:
            data[at:at] = data[at : at + 20]
    return bytes(data)
