"""Middleware for bearer tokens and client authentication."""
