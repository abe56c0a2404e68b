"""Resources: static, generated on read, and templates with typed variables and completion.

    python examples/resources.py

serves on stdio, for a client that starts this command.
"""

from datetime import date
from typing import Literal

from carrel import Contents, Server

app = Server("almanac", version="1.0")
app.resources.add("almanac://motto", "Nothing is older than yesterday's newspaper.", annotations={"priority": 0.2})


@app.resource("almanac://cover", mime_type="image/svg+xml")
async def cover() -> str:
    """The cover."""
    return '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="60"><rect width="40" height="60"/></svg>'


@app.resource("almanac://days/{day}{?style}", title="A day", ttl=3600)
async def page(day: date, style: Literal["short", "long"] = "short") -> Contents:
    """What is known of a day."""
    text = f"{day:%A}" if style == "short" else f"{day:%A}, day {day:%j} of {day:%Y}"
    return Contents(text, mime_type="text/plain")


@page.complete("day")
async def days(prefix: str) -> list[str]:
    """Suggest the first days of this year's months."""
    return [day for month in range(1, 13) if (day := f"{date.today().year}-{month:02}-01").startswith(prefix)]


if __name__ == "__main__":
    app.run()
