"""Tasks: tool calls that continue after their response, and whose results are fetched later.

A client of 2025-11-25 requests a task with each call; with the tasks extension of 2026-07-28 the server decides. In
both cases the tool is an ordinary function that may report progress and request input, and the task survives its
connection. Its record is in the state that replicas share; the replica that runs it has a ``TaskRun``.

https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks
https://modelcontextprotocol.io/extensions/tasks/overview
"""
