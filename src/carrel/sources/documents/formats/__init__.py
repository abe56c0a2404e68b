"""Formats of documents: a module each, with ``open_document``. Only the process that reads documents imports them."""
