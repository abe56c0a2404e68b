"""Answers to the sampling requests of servers by a language model.

https://modelcontextprotocol.io/specification/2026-07-28/client/sampling
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing

from carrel.chat.arguments import argument_error
from carrel.chat.model import Model, ModelAnswer, ModelRequest, Usage
from carrel.chat.sampling_reasoning import Reasoning
from carrel.client.handlers import Handlers, Sampling
from carrel.errors import TransportError
from carrel.vendors.names import ToolNames
from carrel.wire.client_features import (
    CreateMessageResult,
    ModelPreferences,
    SampledContent,
    SamplingMessage,
    ToolResultContent,
    ToolUseContent,
    blocks_of,
)
from carrel.wire.content import TextContent
from carrel.wire.tools import Tool

__all__ = ["ModelChoice", "answer_sampling", "choose", "complete", "question_asker"]

#: Returns the model for the preferences of a request, such as one that ``open_model`` opens; gets the default one too.
ModelChoice = Callable[[ModelPreferences | None, Model], Awaitable[Model]]
#: Maximum number of retries when a model writes arguments that cannot be parsed.
MOST_TRIES = 3


def answer_sampling(
    model: Model,
    *,
    choice: ModelChoice | None = None,
    most_tokens: int = 16_384,
    reasoning: Reasoning | None = None,
) -> Handlers:
    """Return handlers whose sampling requests a model answers; tools are supported.

    The user does not approve anything: to show the request and the answer first, wrap ``sample`` of the result.

    Args:
        choice: function that chooses another model by the request's preferences. Without it ``model`` answers all.
        most_tokens: upper limit of the tokens of an answer, even if the server allows more.
        reasoning: keeps the reasoning of answers, which servers do not get. Pass it if the handlers are created for
            each request.
    """
    kept = Reasoning() if reasoning is None else reasoning

    async def sample(sampling: Sampling) -> CreateMessageResult:
        chosen = model if choice is None else await choice(sampling.model_preferences, model)
        return await answer(chosen, sampling, most_tokens, kept)

    return Handlers(sample=sample, sample_tools=True)


def choose(preferences: ModelPreferences | None, names: Iterable[str]) -> str | None:
    """Return the first name that contains a hint, in the order of the hints, or None.

    A hint such as "claude" or "sonnet" is compared without regard to case, as the specification says.
    """
    names = list(names)
    for hint in (preferences and preferences.hints) or ():
        wanted = (hint.name or "").lower()
        if wanted and (found := next((name for name in names if wanted in name.lower()), None)):
            return found
    return None


async def answer(model: Model, sampling: Sampling, most_tokens: int, reasoning: Reasoning) -> CreateMessageResult:
    """Return the answer of a model to a sampling request. Tools get names that all vendors accept, and back.

    Raises:
        ConfigError: see ``Model``.
        TransportError: see ``Model``; also if the model writes arguments that cannot be read again and again.
    """
    names = ToolNames(("", tool.name) for tool in sampling.tools or ())
    messages = [renamed(reasoning.give_back(message), names) for message in sampling.messages]
    for _ in range(MOST_TRIES):
        completion = await complete(
            model,
            ModelRequest(
                messages=messages,
                system_prompt=sampling.system_prompt,
                tools=[with_name(tool, names.name_of("", tool.name)) for tool in sampling.tools or ()],
                tool_choice=sampling.tool_choice,
                max_tokens=min(sampling.max_tokens, most_tokens),
                temperature=sampling.temperature,
                stop_sequences=sampling.stop_sequences or (),
            ),
        )
        uses = [block for block in completion.content if isinstance(block, ToolUseContent)]
        if not any(argument_error(use) for use in uses):
            break
        messages += corrections(completion, uses)
    else:
        raise TransportError(f"{model.name} returned malformed tool arguments, {MOST_TRIES} times")
    content = reasoning.take([original(block, names) for block in completion.content])
    return CreateMessageResult(
        role="assistant",
        content=content[0] if len(content) == 1 else content,
        model=completion.model,
        stop_reason=completion.stop_reason,
    )


async def complete(model: Model, request: ModelRequest) -> ModelAnswer:
    """Return the whole answer of a model.

    Raises:
        TransportError: the stream ended early, and see ``Model``.
    """
    async with aclosing(model.stream(request)) as events:  # type: ignore[type-var]
        async for event in events:
            if isinstance(event, ModelAnswer):
                return event
    raise TransportError(f"{model.name} ended its answer early")


def question_asker(
    model: Model, count: Callable[[str, Usage], None] = lambda name, usage: None
) -> Callable[[str, int], Awaitable[str]]:
    """Return a function that asks a model one question with a limit of tokens, as the ``model`` of a context.

    ``count`` gets the usage.
    """

    async def ask(prompt: str, most: int) -> str:
        messages = [SamplingMessage(role="user", content=TextContent(prompt))]
        answer = await complete(model, ModelRequest(messages=messages, max_tokens=most))
        count(answer.model, answer.usage)
        return "".join(block.text for block in answer.content if isinstance(block, TextContent))

    return ask


def corrections(completion: ModelAnswer, uses: list[ToolUseContent]) -> list[SamplingMessage]:
    """Return the answer and the tool errors for its arguments; uses that are fine are to be made again too."""
    again = TextContent(text="Not called, as another call of the same answer cannot be read; call it again.")
    results = [
        argument_error(use) or ToolResultContent(tool_use_id=use.id, content=[again], is_error=True) for use in uses
    ]
    return [
        SamplingMessage(role="assistant", content=list(completion.content)),
        SamplingMessage(role="user", content=list(results)),
    ]


def renamed(message: SamplingMessage, names: ToolNames) -> SamplingMessage:
    """Return a message with the names of its tool uses as the model knows them."""
    blocks = [
        ToolUseContent(id=block.id, name=names.name_of("", block.name), input=block.input, meta=block.meta)
        if isinstance(block, ToolUseContent)
        else block
        for block in blocks_of(message)
    ]
    return SamplingMessage(role=message.role, content=blocks)


def with_name(tool: Tool, name: str) -> Tool:
    """Return a tool under the name that the model knows."""
    return Tool(name=name, title=tool.title, description=tool.description, input_schema=tool.input_schema)


def original(block: SampledContent, names: ToolNames) -> SampledContent:
    """Return a block of an answer as the server gets it: with its own names of tools."""
    if not isinstance(block, ToolUseContent):
        return block
    found = names.find(block.name)
    return ToolUseContent(id=block.id, name=found[1] if found else block.name, input=block.input, meta=block.meta)
