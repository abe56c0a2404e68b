"""Docstrings in the styles that people write: the text, and what it says of each parameter."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.server.schema.docstring import read_docstring

STYLES = {
    "Google": """
    Args:
        city: The city.
        days (int, optional): How many
            days.

    Returns:
        The weather.
    """,
    "Google, other heading": """
    Parameters:
        city (str): The city.
        days: How many days.
    """,
    "NumPy": """
    Parameters
    ----------
    city : str
        The city.
    days : int, optional
        How many days.
    """,
    "Sphinx": """
    :param city: The city.
    :param int days: How many days.
    :type city: str
    """,
    "epydoc": """
    @param city: The city.
    @type city: str
    @param days: How many
        days.
    """,
    "dashes": """
    Args:
        city - The city.
        days (int) - How many days.
    """,
    "dashes in a list": """
    Parameters:
        - city -- The city.
        - days \u2013 How many days.
    """,
    "colons in a list": """
    Args:
        - city: The city.
        - `days`: How many days.
    """,
    "no indentation": """
    Parameters:
    - city: The city.
    - days: How many days.
    """,
}


@pytest.mark.parametrize("style", STYLES)
def test_every_style_describes_the_parameters(style: str) -> None:
    text, parameters = read_docstring(f"Forecast the weather.\n{STYLES[style]}")
    assert text is not None
    assert text.startswith("Forecast the weather.")
    assert "city" not in text
    assert parameters == {"city": "The city.", "days": "How many days."}


def test_dashes_in_a_description_are_part_of_it() -> None:
    _, parameters = read_docstring("Do.\n\nArgs:\n    a: one - two\n        and - three\n    b - four: five")
    assert parameters == {"a": "one - two and - three", "b": "four: five"}


@pytest.mark.parametrize(
    ("docstring", "text", "parameters"),
    [
        (None, None, {}),
        ("", None, {}),
        ("One line.", "One line.", {}),
        ("Args:\n    a: First.", None, {"a": "First."}),
        (
            "Do.\n\nArgs:\n    a (dict[str, int]): First: one.\n    *rest: More.",
            "Do.",
            {"a": "First: one.", "rest": "More."},
        ),
        (
            "Do.\n\nArguments:\n    a: First,\n        and more.\n\n        And on.\n    b:\n        Second.\n\nNotes.",
            "Do.\n\nNotes.",
            {"a": "First, and more. And on.", "b": "Second."},
        ),
        ("Do.\n\nArgs: none of them.", "Do.\n\nArgs: none of them.", {}),
        (
            "Do.\n\nParameters\n----------\na, b : int\n    Both.\nc\n    Third.",
            "Do.",
            {"a": "Both.", "b": "Both.", "c": "Third."},
        ),
        (
            "Do.\n\nParameters\n----------\na : int\n    First.\n\nNotes\n-----\nText.",
            "Do.\n\nNotes\n-----\nText.",
            {"a": "First."},
        ),
        (":param a: First.\n:type a: int\n:rtype: int\n:raises X: never", ":raises X: never", {"a": "First."}),
        (
            "Do.\n\n:param dict[str, int] a: First,\n    and more.\n:param b: Second.",
            "Do.",
            {"a": "First, and more.", "b": "Second."},
        ),
        ("Do.\n\n:param a:\n    First.\n\nMore.", "Do.\n\nMore.", {"a": "First."}),
    ],
)
def test_docstrings_are_taken_apart(docstring, text, parameters):
    assert read_docstring(docstring) == (text, parameters)


@given(st.text(st.sampled_from("ab:\n -*(),Args:Parameters---:param ")) | st.text())
def test_no_docstring_is_too_odd(docstring):
    text, parameters = read_docstring(docstring)
    assert text is None or text.strip()
    assert all(parameters.values())
