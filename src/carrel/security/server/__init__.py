"""Authorization of HTTP servers: token verification, scopes, metadata (OAuth 2.1 resource server), OAuth proxy."""
