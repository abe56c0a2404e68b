"""URIs and URI templates: RFC 3986 and RFC 6570."""
