"""Transforms: providers that show another provider differently – other names, fewer things.

    app.add_provider(Namespace(provider, "docs"))
    app.add_provider(Filter(provider, tools=["get_*", "list_*"]))
    app.add_provider(Rename(provider, tools={"q": "search_orders"}))

Each wraps one provider and is one, so they can be combined.
"""
