"""Tools, tool results and contents in the wire formats of vendors of language models. No SDK is needed.

There is a module for each format: ``anthropic`` (Messages API), ``openai_responses``, ``openai_chat`` (Chat
Completions) and ``gemini``. Each has the same functions: ``declare`` a tool, ``tool_list`` of a request, ``calls`` of a
response, the ``tool_results`` that are sent next, and ``content`` of blocks. They take structs of ``carrel.wire`` and
return dictionaries. The models of ``carrel.chat.models`` use them with the vendors' SDKs.
``token_estimate`` says how much of a model's context they take.
"""
