"""Catalog: what providers offer – resources, templates, tools, prompts, skills – as one, to be listed and looked up."""
