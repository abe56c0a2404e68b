"""OAuth proxy: an authorization server for MCP clients, for an upstream without dynamic client registration."""
