"""Authorization of HTTP servers: tokens, scopes, metadata."""
