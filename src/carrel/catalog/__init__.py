"""Catalog: lists and finds the resources, templates, tools, prompts and skills of all providers."""
