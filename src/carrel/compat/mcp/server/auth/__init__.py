"""Authorization of servers: OAuth 2.1 resource server and authorization server."""
