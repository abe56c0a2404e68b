"""Requests of resolvers to the client, and the outcomes of the answers."""

from __future__ import annotations

import hashlib
from typing import Any, Generic, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, ValidationError
from typing_extensions import TypeVar

from carrel.compat.mcp2 import types
from carrel.compat.mcp2.server.elicitation import (
    AcceptedElicitation,
    CancelledElicitation,
    DeclinedElicitation,
    render_elicitation_schema,
)
from carrel.compat.mcp2.server.mcpserver.context import Context
from carrel.compat.mcp2.server.mcpserver.exceptions import ToolError
from carrel.compat.mcp2.server.request_state import compact_json, encode
from carrel.compat.mcp2.server.validation import validate_tool_use_result_messages, wants_sampling_tools
from carrel.compat.mcp2.shared.exceptions import MCPError
from carrel.compat.mcp2.types.jsonrpc import MISSING_REQUIRED_CLIENT_CAPABILITY

__all__ = [
    "Elicit",
    "Entry",
    "ListRoots",
    "ResolverRequest",
    "Sample",
    "accepted",
    "digest_of",
    "entry_of",
    "outcome_of",
    "require_capability",
    "result_type",
    "wire_request",
]

T = TypeVar("T", bound=BaseModel)


class Elicit(Generic[T]):
    """Request to the user: a form that a model describes."""

    def __init__(self, message: str, schema: type[T]) -> None:
        self.message = message
        self.schema = schema


class Sample:
    """Request to the client's model. ``options`` are fields of ``CreateMessageRequestParams``.

    Raises:
        ValueError: results of tools in the messages do not belong to their uses.
    """

    def __init__(self, messages: list[types.SamplingMessage], *, max_tokens: int, **options: Any) -> None:
        validate_tool_use_result_messages(messages)
        self.params = types.CreateMessageRequestParams(messages=messages, max_tokens=max_tokens, **options)


class ListRoots:
    """Request for the client's roots."""


ResolverRequest: TypeAlias = Elicit[Any] | Sample | ListRoots


# Answers


class Entry(BaseModel):
    """Outcome of a request in an earlier round; ``q`` is the digest of the request."""

    model_config = ConfigDict(defer_build=True)

    action: Literal["accept", "decline", "cancel"]
    data: Any = None
    q: str | None = None


def accepted(data: Any) -> AcceptedElicitation[Any]:
    """Return the outcome of a request that was answered with data."""
    return AcceptedElicitation[Any].model_construct(data=data)


def entry_of(answer: Any, request: ResolverRequest, key: str, digest: str) -> Entry:
    """Return the outcome of an answer.

    Raises:
        ToolError: the answer does not fit the request.
    """
    if not isinstance(request, Elicit):
        data = answer.model_dump(mode="json", by_alias=True, exclude_none=True)
        try:
            result_type(request).model_validate(data)
        except ValidationError as error:
            raise ToolError(f"Resolver {key!r} received a response of the wrong kind") from error
        return Entry(action="accept", data=data, q=digest)
    if not isinstance(answer, types.ElicitResult):
        raise ToolError(f"Resolver {key!r} received a non-elicitation response")
    if answer.action != "accept":
        return Entry(action=answer.action, q=digest)
    if answer.content is None:
        raise ToolError(f"Resolver {key!r} received an accepted elicitation with no content")
    try:
        request.schema.model_validate(answer.content)
    except ValidationError as error:
        raise ToolError(
            f"Resolver {key!r} received an accepted elicitation whose content does not match the requested schema"
        ) from error
    return Entry(action="accept", data=answer.content, q=digest)


def outcome_of(entry: Entry, request: ResolverRequest) -> Any:
    """Return the outcome of a request from an earlier round."""
    if not isinstance(request, Elicit):
        return accepted(result_type(request).model_validate(entry.data))
    if entry.action == "accept":
        return accepted(request.schema.model_validate(entry.data))
    return DeclinedElicitation() if entry.action == "decline" else CancelledElicitation()


def wire_request(request: ResolverRequest) -> Any:
    """Return a request of a resolver as the client receives it."""
    if isinstance(request, Elicit):
        schema = render_elicitation_schema(request.schema)
        params = types.ElicitRequestFormParams(message=request.message, requested_schema=schema)
        return types.ElicitRequest(params=params)
    return (
        types.CreateMessageRequest(params=request.params) if isinstance(request, Sample) else types.ListRootsRequest()
    )


def result_type(request: Sample | ListRoots) -> Any:
    """Return the type of the result of a request."""
    if isinstance(request, ListRoots):
        return types.ListRootsResult
    tools = wants_sampling_tools(request.params.tools, request.params.tool_choice)
    return types.CreateMessageResultWithTools if tools else types.CreateMessageResult


def digest_of(request: Any) -> str:
    """Return the digest of the parameters of a request."""
    params = request.params
    shown = None if params is None else params.model_dump(mode="json", by_alias=True, exclude_none=True)
    return encode(hashlib.sha256(compact_json(shown).encode()).digest()[:16])


def require_capability(context: Context[Any, Any], request: ResolverRequest, key: str) -> None:
    """Check that the client can answer a request.

    Raises:
        MCPError: it did not declare the capability.
    """
    declared = context.client_capabilities or types.ClientCapabilities()
    if isinstance(request, Elicit):
        given = declared.elicitation
        if given is not None and (given.form is not None or given.url is None):
            return
        name = "form elicitation"
        needed = types.ClientCapabilities(
            elicitation=types.ElicitationCapability(form=types.FormElicitationCapability())
        )
    elif isinstance(request, Sample):
        tools = wants_sampling_tools(request.params.tools, request.params.tool_choice)
        if declared.sampling is not None and (not tools or declared.sampling.tools is not None):
            return
        name = "sampling.tools" if tools else "sampling"
        capability = types.SamplingCapability(tools=types.SamplingToolsCapability() if tools else None)
        needed = types.ClientCapabilities(sampling=capability)
    else:
        if declared.roots is not None:
            return
        name, needed = "roots", types.ClientCapabilities(roots=types.RootsCapability())
    data = types.MissingRequiredClientCapabilityErrorData(required_capabilities=needed)
    raise MCPError(
        MISSING_REQUIRED_CLIENT_CAPABILITY,
        f"Client did not declare the {name} capability required by resolver {key!r}",
        data.model_dump(by_alias=True, mode="json", exclude_none=True),
    )
