"""Authorization of HTTP servers (OAuth 2.1 resource server): token verification, scopes, metadata."""
