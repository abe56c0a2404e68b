"""Ready-made providers for what lies outside: folders, skills, and the sources of other packages, by URL.

    app.add_provider(sources.open("./docs", include=["*.md"]))

A source is imported only when it is opened.
"""

from carrel.sources.registry import open, scheme_of

__all__ = ["open", "scheme_of"]
