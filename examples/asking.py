"""A tool with elicitation and sampling: a form and a confirmation by the user, and a greeting by the model.

    python examples/asking.py

It works with every client that supports elicitation and sampling, whether the client receives server requests (up to
2025-11-25) or rounds (2026-07-28), in which the function is run again from the start with the responses so far. So it
asks first. Actions that must not be repeated come last, or are run with ``once``.
"""

import random
from dataclasses import dataclass
from enum import Enum
from typing import Annotated

from msgspec import Meta

from carrel import Context, Server
from carrel.errors import MissingCapability

app = Server("kitchen", version="1.0")
booked: dict[int, str] = {}


class Diet(Enum):
    ANYTHING = "anything"
    VEGETARIAN = "vegetarian"
    VEGAN = "vegan"


@dataclass
class Reservation:
    name: Annotated[str, Meta(min_length=1, description="Who is coming?")]
    guests: Annotated[int, Meta(ge=1, le=8)] = 2
    diet: Diet = Diet.ANYTHING


@app.tool()
async def reserve(evening: str, context: Context) -> str:
    """Reserve a table for an evening."""
    wish = await context.elicit(f"A table on {evening}:", Reservation)
    if wish.data is None:
        return "Nothing was reserved."
    name, guests, diet = wish.data.name, wish.data.guests, wish.data.diet.value
    table = await context.once("table", lambda: random.randint(1, 20))  # the same number when the function is run again
    sure = await context.elicit(f"Table {table} for {guests} on {evening}, {diet}. Reserve it?", None)
    if not sure.accepted:
        return "Nothing was reserved."
    try:
        greeting = (await context.sample(f"Welcome {name} to our restaurant, in one short sentence.", 50)).text
    except MissingCapability:  # not every client supports sampling
        greeting = f"Welcome, {name}!"
    booked[table] = name
    return f"{greeting} Your table is number {table}."


if __name__ == "__main__":
    app.run()
