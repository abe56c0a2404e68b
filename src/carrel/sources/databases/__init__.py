"""SQL databases as resources: schema, dictionary, diagram, rows by key, named queries, and a read-only query tool."""
