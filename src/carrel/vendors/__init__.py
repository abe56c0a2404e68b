"""Tools, tool results and contents in the wire formats of vendors of language models. No SDK is needed.

There is a module for each format: ``anthropic`` (Messages API), ``openai_responses``, ``openai_chat`` (Chat
Completions) and ``gemini``. Each has the same functions: ``declare`` a tool, ``content`` of blocks, and the
``tool_results`` that are sent next. All of them take structs of ``carrel.wire`` and return dictionaries.
``token_estimate`` says how much of a model's context they take.
"""
