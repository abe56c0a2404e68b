"""Endpoints of the authorization server."""
