"""Server application: resources, tools, prompts, completion and subscriptions."""
