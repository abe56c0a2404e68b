"""Documents as text: PDF, Word, Excel and the like as Markdown, page by page, for sources that have their bytes.

``documents`` is what a source uses; ``query`` and ``kinds`` say which URIs and media types have text; ``process`` runs
``worker`` in a process of its own, with limits of time and memory, where ``formats`` has a module for each format.
"""
