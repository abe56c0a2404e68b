"""Resource contents, for all sources: MIME types, text encodings, windows."""
