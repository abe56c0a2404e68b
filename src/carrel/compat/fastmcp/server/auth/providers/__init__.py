"""Providers: token verifiers and logins of usual authorization servers."""
