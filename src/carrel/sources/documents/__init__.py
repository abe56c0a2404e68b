"""Convert documents (PDF, Word, Excel and others) to Markdown, page by page, for sources that have their bytes.

Sources use ``documents``. ``query`` and ``kinds`` define which URIs and media types have text. ``process`` runs
``worker`` in a child process with time and memory limits. ``formats`` has a module for each format.
"""
