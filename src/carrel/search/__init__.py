"""Full-text search over all resources of a server: an index on disk, with a template, a tool and functions to query it.

    app = Server("library")
    app.add_provider("./notes")
    index = app.add_search()
    ...
    results = await index.search("red wine", limit=5)

``index`` has the API; ``provider`` offers it to clients, ``engine`` wraps the engine, tantivy.
"""
