"""Server with 100,000 resources on a hundred shelves."""

from carrel import Server

MANY, SHELF = 100_000, 1_000

app = Server("library", page_size=10_000)
for number in range(MANY):
    app.resources.add(
        f"memo://library/{number // SHELF:02}/note-{number:06}",
        f"# Note {number}\n\nWords of note {number}.\n",
        name=f"note {number:06}",
        mime_type="text/markdown" if number % 10 else "text/plain",
    )
