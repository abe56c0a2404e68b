"""Projections of values to older protocol revisions: compiles the revisions' deltas into one function per type.

A projection walks a value once, from the outside in, and applies the downgrades of every newer revision. Types that no
newer revision changed, neither themselves nor their parts, have no projection and cost one dictionary look-up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from carrel.protocol.revision import Downgrade, Without, absent_fields
from carrel.wire.base import Annotations, ClientCapabilities, Icon, Implementation
from carrel.wire.client_features import (
    CreateMessageParams,
    CreateMessageResult,
    ListRootsResult,
    Root,
    SamplingMessage,
    ToolResultContent,
    ToolUseContent,
)
from carrel.wire.completion import (
    CompleteParams,
    CompleteResult,
    Completion,
    PromptReference,
    ResourceTemplateReference,
)
from carrel.wire.content import AudioContent, EmbeddedResource, ImageContent, ResourceLink, TextContent
from carrel.wire.lifecycle import (
    DiscoverResult,
    InitializeParams,
    InitializeResult,
    ListChanged,
    ResourcesCapability,
    ServerCapabilities,
)
from carrel.wire.prompts import GetPromptResult, ListPromptsResult, Prompt, PromptArgument, PromptMessage
from carrel.wire.resources import (
    AcknowledgedParams,
    BlobResourceContents,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    SubscriptionFilter,
    TextResourceContents,
)
from carrel.wire.tools import CallToolResult, ListToolsResult, Tool, ToolAnnotations

__all__ = ["INSIDE", "build"]

CONTENTS = (TextResourceContents, BlobResourceContents)
BLOCKS = (TextContent, ImageContent, AudioContent, ResourceLink, EmbeddedResource)

#: Fields of a type that hold other types of the protocol.
INSIDE: Mapping[type, Mapping[str, tuple[type, ...]]] = {
    Implementation: {"icons": (Icon,)},
    Resource: {"annotations": (Annotations,), "icons": (Icon,)},
    ResourceLink: {"annotations": (Annotations,), "icons": (Icon,)},
    ResourceTemplate: {"annotations": (Annotations,), "icons": (Icon,)},
    TextContent: {"annotations": (Annotations,)},
    ImageContent: {"annotations": (Annotations,)},
    AudioContent: {"annotations": (Annotations,)},
    EmbeddedResource: {"resource": CONTENTS, "annotations": (Annotations,)},
    Tool: {"annotations": (ToolAnnotations,), "icons": (Icon,)},
    Prompt: {"arguments": (PromptArgument,), "icons": (Icon,)},
    PromptMessage: {"content": BLOCKS},
    ServerCapabilities: {"prompts": (ListChanged,), "resources": (ResourcesCapability,), "tools": (ListChanged,)},
    AcknowledgedParams: {"notifications": (SubscriptionFilter,)},
    InitializeParams: {"capabilities": (ClientCapabilities,), "client_info": (Implementation,)},
    InitializeResult: {"capabilities": (ServerCapabilities,), "server_info": (Implementation,)},
    DiscoverResult: {"capabilities": (ServerCapabilities,)},
    ListResourcesResult: {"resources": (Resource,)},
    ListResourceTemplatesResult: {"resource_templates": (ResourceTemplate,)},
    ReadResourceResult: {"contents": CONTENTS},
    ListToolsResult: {"tools": (Tool,)},
    CallToolResult: {"content": BLOCKS},
    ListPromptsResult: {"prompts": (Prompt,)},
    GetPromptResult: {"messages": (PromptMessage,)},
    ToolResultContent: {"content": BLOCKS},
    SamplingMessage: {"content": (TextContent, ImageContent, AudioContent, ToolUseContent, ToolResultContent)},
    ListRootsResult: {"roots": (Root,)},
    CreateMessageParams: {"messages": (SamplingMessage,), "tools": (Tool,)},
    CreateMessageResult: {"content": (TextContent, ImageContent, AudioContent, ToolUseContent)},
    CompleteParams: {"ref": (PromptReference, ResourceTemplateReference)},
    CompleteResult: {"completion": (Completion,)},
}


def build(newer: Sequence[Mapping[type, Downgrade]]) -> Mapping[type, Downgrade]:
    """Return the projections of a revision, given the ``before`` tables of the revisions after it, newest first."""
    projections: dict[type, Downgrade] = {}

    def chain(kind: type) -> list[tuple[int, Downgrade]]:
        """Return the downgrades of a type, newest first, with their ages; adjacent ``Without`` are merged."""
        steps: list[tuple[int, Downgrade]] = []
        for age, table in enumerate(newer):
            step = table.get(kind)
            last = steps[-1][1] if steps else None
            if isinstance(step, Without) and isinstance(last, Without):
                steps.pop()
                step = Without(last.fields + step.fields)
            if step is not None:
                steps.append((age, step))
        return steps

    def touched(kind: type) -> bool:
        inside = INSIDE.get(kind, {})
        return bool(chain(kind)) or any(touched(part) for parts in inside.values() for part in parts)

    def compile(kind: type) -> Downgrade:
        steps = [
            (age, absent_fields(kind, step.fields) if isinstance(step, Without) else {}, step)
            for age, step in chain(kind)
        ]
        own = tuple(name for name, parts in INSIDE.get(kind, {}).items() if any(touched(part) for part in parts))

        def apply(value: Any) -> Any:  # one function, as it is on the hot path of results for older peers
            names: Iterable[str] = own
            for age, absent, step in steps:
                if absent:
                    for field, default in absent.items():
                        if getattr(value, field) is not default:
                            value = msgspec.structs.replace(value, **absent)
                            break
                    continue
                value = step(value)
                if type(value) is not kind:  # it became another type, which has separate downgrades
                    for later, table in enumerate(newer):
                        if later > age and type(value) in table:
                            value = table[type(value)](value)
                    names = INSIDE.get(type(value), {})
                    break
            changed: dict[str, Any] = {}
            for name in names:
                part = getattr(value, name)
                if type(part) is not list:
                    projection = projections.get(type(part))
                    if projection is not None:
                        projected = projection(part)
                        if projected is not part:
                            changed[name] = projected
                    continue
                for index, item in enumerate(part):
                    projection = projections.get(type(item))
                    if projection is not None:
                        projected = projection(item)
                        if projected is not item:
                            if name not in changed:
                                changed[name] = part.copy()
                            changed[name][index] = projected
            return msgspec.structs.replace(value, **changed) if changed else value

        return apply

    kinds = {kind for table in newer for kind in table} | set(INSIDE)
    for kind in kinds:
        if touched(kind):
            projections[kind] = compile(kind)
    return projections
