"""Server for people: a template with completion, a tool with a choice of forms, a long one, and questions."""

import asyncio

from carrel import Context, Server

CITIES = {"germany": ["Berlin", "Bonn"], "china": ["Beijing", "Shanghai"]}
FINDER = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Name", "description": "The whole name"},
        "number": {"type": "integer"},
        "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": 3},
        "near": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "number"}}]},
    },
    "anyOf": [{"required": ["name"]}, {"required": ["number"]}],
}
FORM = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "title": "Title"},
        "copies": {"type": "integer", "default": 2, "minimum": 1},
        "size": {"type": "string", "enum": ["small", "large"]},
        "gift": {"type": "boolean"},
    },
    "required": ["title", "size"],
}
app = Server("asking")


@app.resource("weather://{country}/{city}/{day}", title="Weather of a day", mime_type="text/plain")
def weather(country: str, city: str, day: str) -> str:
    return f"On {day} the sun shines in {city}, {country}."


@weather.complete("country")
def countries(value: str) -> list[str]:
    return [country for country in CITIES if country.startswith(value)]


@weather.complete("city")
def cities(value: str, context: dict[str, str]) -> list[str]:
    return [city for city in CITIES.get(context.get("country", ""), []) if city.lower().startswith(value.lower())]


@app.tool(input_schema=FINDER, title="Find somebody", annotations={"readOnlyHint": True})
def find(**arguments: object) -> str:
    return f"found {sorted(arguments.items())}"


@app.tool
async def count(context: Context) -> str:
    """Report progress, and wait for its end, which is a cancellation."""
    await context.report_progress(1, 4, "one of four")
    await asyncio.Event().wait()
    return "never"


@app.tool(task="optional", title="Bake bread")
async def bake(context: Context, loaves: int = 2) -> str:
    """Bake; the size of the last loaf is a question, and many loaves take for ever."""
    await context.report_progress(1, loaves, f"1 of {loaves} in the oven")
    if loaves > 9:
        await asyncio.Event().wait()
    answer = await context.elicit("How large is the last one?", FORM)
    return f"{loaves} loaves, {answer.action}"


@app.tool
async def order(context: Context) -> str:
    answer = await context.elicit("Which book?", FORM)
    return f"{answer.action}: {sorted((answer.data or {}).items())}"


@app.tool
async def log_in(context: Context) -> str:
    answer = await context.elicit_url("Log in to the library", "https://library.example/login?next=%2F")
    return f"login: {answer.action}"


@app.tool
async def both(context: Context) -> str:
    """Ask two questions at once."""
    answers = await asyncio.gather(*(context.elicit(f"Your {each}?", str, key=each) for each in ("name", "town")))
    return " and ".join(f"{answer.action} {answer.data}" for answer in answers)


@app.tool(annotations={"destructiveHint": True})
def burn(paper: str) -> str:
    return f"burnt {paper}"
