"""Sampling requests of a handler: messages of the model, and calls of the tools that it calls."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter, ValidationError

from carrel.compat.fastmcp.exceptions import ToolError
from carrel.compat.fastmcp.server.sampling_result import SampleStep, SamplingResult, messages_of, preferences_of
from carrel.compat.fastmcp.server.sampling_tool import FINAL_RESPONSE, SamplingTool, final_response_tool, tools_of
from carrel.compat.fastmcp.settings import settings
from carrel.compat.fastmcp.utilities.json_schema import compress_schema
from carrel.compat.mcp.types import (
    ClientCapabilities,
    CreateMessageRequestParams,
    SamplingCapability,
    SamplingMessage,
    SamplingToolsCapability,
    TextContent,
    ToolChoice,
    ToolResultContent,
    ToolUseContent,
)
from carrel.log import Log

__all__ = ["SampleStep", "Sampling", "SamplingResult", "SamplingTool"]

log = Log("fastmcp.server")

#: How many messages of the model a request leads to, and how many of them may be no valid structured result.
MAX_STEPS = 100
MAX_INVALID = 3
DEFAULT_TOKENS = 512


@dataclass
class Sampling:
    """Sampling request of a handler: the context of the handler, and the options of its messages."""

    context: Any
    system_prompt: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    model_preferences: Any = None
    include_context: Any = None
    tools: list[SamplingTool] = field(default_factory=list)
    tool_choice: str | None = None
    mask_error_details: bool | None = None
    tool_concurrency: int | None = None
    """How many tools run at a time: one by default, all with 0."""

    def __post_init__(self) -> None:
        self.tools = tools_of(self.tools)
        self.model_preferences = preferences_of(self.model_preferences)
        if self.tool_choice not in (None, "auto", "required", "none"):
            raise ValueError(f"Invalid tool_choice: {self.tool_choice!r}. Must be 'auto', 'required', or 'none'.")
        if self.tool_concurrency is not None and self.tool_concurrency < 0:
            raise ValueError(
                f"tool_concurrency must be None, 0 (unlimited), or a positive integer, got {self.tool_concurrency}"
            )

    async def step(self, messages: Any, *, executes: bool = True) -> SampleStep:
        """Get one message of the model, and call the tools that it calls."""
        history = messages_of(messages)
        response = await self._ask(history)
        history.append(SamplingMessage(role="assistant", content=response.content))
        step = SampleStep(response, history)
        if step.is_tool_use and executes:
            history.append(SamplingMessage(role="user", content=await self._results(step.tool_calls)))
        return step

    async def run(self, messages: Any, result_type: Any = None) -> SamplingResult[Any]:
        """Get messages of the model until it calls no more tools, or has returned a result of a type.

        Raises:
            RuntimeError: there are too many messages, or too many without a valid result.
        """
        if result_type is not None and result_type is not str:
            return await self._run_typed(messages, TypeAdapter(result_type), getattr(result_type, "__name__", ""))
        for _ in range(MAX_STEPS):
            step = await self.step(messages)
            if not step.is_tool_use:
                content = step.response.content
                plain = step.text is not None or isinstance(content, list)
                return SamplingResult(step.text, (step.text or "") if plain else content, step.history)
            messages, self.tool_choice = step.history, None
        raise RuntimeError(f"Sampling exceeded maximum iterations ({MAX_STEPS})")

    async def _run_typed(self, messages: Any, adapter: TypeAdapter[Any], name: str) -> SamplingResult[Any]:
        schema = compress_schema(adapter.json_schema(), prune_titles=True)
        is_object = schema.get("type") == "object"
        self.tools, self.tool_choice = [*self.tools, final_response_tool(schema)], "required"
        texts = invalid = 0
        for _ in range(MAX_STEPS):
            step = await self.step(messages, executes=False)
            messages = step.history
            if not step.is_tool_use:
                texts += 1
                if texts > MAX_INVALID:
                    raise RuntimeError(f"Expected structured output of type {name}, but the model answered with text")
                messages += messages_of(f"Call the tool {FINAL_RESPONSE} with the result. A text is no result.")
                continue
            answers = [call for call in step.tool_calls if call.name == FINAL_RESPONSE]
            if not answers:
                invalid = 0
                messages.append(SamplingMessage(role="user", content=await self._results(step.tool_calls)))
                continue
            given = answers[0].input if is_object else answers[0].input.get("value")
            try:
                value = adapter.validate_python(given)
            except ValidationError as error:
                invalid += 1
                if invalid > MAX_INVALID:
                    raise RuntimeError(f"Structured output validation failed for type {name}: {error}") from error
                wrong = [_result(call, f"Validation error: {error}", is_error=True) for call in step.tool_calls]
                messages.append(SamplingMessage(role="user", content=wrong))
            else:
                return SamplingResult(json.dumps(adapter.dump_python(value, mode="json")), value, messages)
        raise RuntimeError(f"Sampling exceeded maximum iterations ({MAX_STEPS})")

    async def _ask(self, messages: list[SamplingMessage]) -> Any:
        """Return a message of the client's model, or of the ``sampling_handler`` of the server."""
        server, session = self.context._fastmcp, self.context.session
        options: dict[str, Any] = {
            "system_prompt": self.system_prompt,
            "temperature": self.temperature,
            "max_tokens": self.max_tokens or DEFAULT_TOKENS,
            "model_preferences": self.model_preferences,
            "tools": [tool._to_sdk_tool() for tool in self.tools] or None,
            "tool_choice": None if self.tool_choice is None else ToolChoice(mode=self.tool_choice),
        }
        if has_own_model(server, session, needs_tools=bool(self.tools)):
            return await own_answer(server.sampling_handler, messages, options, self.context.request_context)
        return await session.create_message(
            messages, include_context=self.include_context, related_request_id=self.context.request_id, **options
        )

    async def _results(self, calls: Sequence[ToolUseContent]) -> list[Any]:
        """Call tools, and return their results in the order of the calls."""
        tools = {tool.name: tool for tool in self.tools}
        called = [tools[call.name] for call in calls if call.name in tools]
        alone = self.tool_concurrency is None or any(tool.sequential for tool in called)
        slots = asyncio.Semaphore(1 if alone else self.tool_concurrency or max(1, len(calls)))

        async def run(call: ToolUseContent) -> ToolResultContent:
            async with slots:
                return await self._result(tools.get(call.name), call)

        return await asyncio.gather(*map(run, calls))

    async def _result(self, tool: SamplingTool | None, call: ToolUseContent) -> ToolResultContent:
        if tool is None:
            return _result(call, f"Error: Unknown tool '{call.name}'", is_error=True)
        try:
            return _result(call, str(await tool.run(call.input)))
        except ToolError as error:
            log.log(error.log_level, "tool %r of a sampling request: %s", call.name, error)
            return _result(call, str(error), is_error=True)
        except Exception as error:
            log.exception("tool %r of a sampling request", call.name)
            masks = settings.mask_error_details if self.mask_error_details is None else self.mask_error_details
            text = f"Error executing tool '{call.name}'" + ("" if masks else f": {error}")
            return _result(call, text, is_error=True)


def _result(call: ToolUseContent, text: str, *, is_error: bool | None = None) -> ToolResultContent:
    content = [TextContent(type="text", text=text)]
    return ToolResultContent(type="tool_result", toolUseId=call.id, content=content, isError=is_error)


def has_own_model(server: Any, session: Any, *, needs_tools: bool = False) -> bool:
    """Return whether the ``sampling_handler`` of a server answers, in place of the client's model.

    Raises:
        ValueError: the ``sampling_handler_behavior`` is unknown, or "always" without a handler; or no model may call
            tools.
    """
    behavior, handler = server.sampling_handler_behavior, server.sampling_handler
    if behavior not in ("always", "fallback"):
        raise ValueError(f"Invalid sampling_handler_behavior: {behavior!r}. Must be 'always', 'fallback', or None.")
    if behavior == "always" and handler is None:
        raise ValueError("sampling_handler_behavior is 'always' but no handler configured")
    if behavior == "always":
        return True
    wanted = SamplingCapability(tools=SamplingToolsCapability()) if needs_tools else SamplingCapability()
    if session.check_client_capability(ClientCapabilities(sampling=wanted)):
        return False
    if handler is None and needs_tools:
        raise ValueError(
            "Client does not support sampling with tools. The client must advertise the sampling.tools capability."
        )
    return handler is not None


async def own_answer(handler: Any, messages: list[SamplingMessage], options: dict[str, Any], context: Any) -> Any:
    """Return the message of a handler, which takes messages, parameters and the context of the request."""
    from carrel.compat.fastmcp.client.sampling import sampling_callback

    params = CreateMessageRequestParams(
        messages=messages,
        maxTokens=options["max_tokens"],
        systemPrompt=options["system_prompt"],
        temperature=options["temperature"],
        modelPreferences=options["model_preferences"],
        tools=options["tools"],
        toolChoice=options["tool_choice"],
    )
    return await sampling_callback(handler)(context, params)
