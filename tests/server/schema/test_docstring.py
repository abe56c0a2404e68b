"""Docstrings in the styles that people write: the text, and what it says of each parameter."""

from __future__ import annotations

import pytest

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
