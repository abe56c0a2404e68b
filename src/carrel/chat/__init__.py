"""Chat with a language model that uses the resources, tools and prompts of many servers."""
