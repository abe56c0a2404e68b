"""Source of web pages: listed for clients to fetch themselves, or fetched, cached and converted to Markdown here."""
