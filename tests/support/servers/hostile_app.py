"""Server whose app attacks the page that shows it: it tries every way out of its frame, and lists what it got."""

import sys
from pathlib import Path

from carrel import Server

SITE = sys.argv[1]
HTML = Path(__file__).with_suffix(".html").read_text().replace("SITE", SITE)

app = Server("hostile")
app.resources.add("memo://secret", "the secret", name="secret")
app.ui("ui://hostile/app.html", HTML, csp={"connect_domains": [SITE], "resource_domains": [SITE, "https://*"]})


@app.tool(ui="ui://hostile/app.html")
def show() -> str:
    """Show the app."""
    return "shown"


@app.tool
def own(text: str = "") -> str:
    """Return a text."""
    return text


@app.tool(visibility=["model"])
def for_models() -> str:
    """Return a text to models only."""
    return "for models"


app.run()
