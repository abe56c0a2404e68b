"""Context: packs the resources that matter for a question into a budget of tokens, with reasons.

    index = app.add_search()
    pack = await index.context("how is tea brewed?", budget=4000)
    print(pack.text)

``Host.context`` does the same over all servers of a host. See docs/packed-context.md.
"""
