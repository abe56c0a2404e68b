"""The application that answers: resources, tools, prompts, completion and subscriptions of a server."""
