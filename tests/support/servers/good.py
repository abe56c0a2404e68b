"""Server that follows every rule: descriptions, schemas, annotations, templates."""

from typing import Annotated

from carrel import Server

app = Server("good", version="1.0")
app.resources.add("memo://today", "Buy bread.", name="today", description="What to do today")


@app.resource("memo://{day}", title="A memo", description="The memo of a day")
def memo(day: str) -> str:
    return f"Nothing on {day}."


@app.tool(annotations={"readOnlyHint": True})
def add(a: Annotated[int, "the first number"], b: Annotated[int, "the second number"]) -> int:
    """Add two numbers."""
    return a + b


@app.prompt
def plan(day: Annotated[str, "the day to plan"]) -> str:
    """Plan a day."""
    return f"Plan {day}."
