"""OAuth proxy: an authorization server for MCP clients in front of one that has no dynamic client registration."""
