"""Full-text search over all resources of a server: an index on the disk; a template, a tool and functions to ask it.

    app = Server("library")
    app.add_provider("./notes")
    index = app.add_search()
    ...
    results = await index.search("red wine", limit=5)

``index`` has the API; ``provider`` offers it to clients. The engine is tantivy, which ``engine`` hides from the rest.
"""
