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

__all__ = ["INSIDE", "Projections"]

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


class Projections(dict[type, Downgrade | None]):
    """Projections of a revision by type; None for a type that does not differ. Each is compiled on first use.

    ``newer`` are the ``before`` tables of the revisions after it, newest first.
    """

    def __init__(self, newer: Sequence[Mapping[type, Downgrade]]) -> None:
        self.newer = newer

    def __missing__(self, kind: type) -> Downgrade | None:
        steps = self._chain(kind)
        fields = INSIDE.get(kind, {}).items()
        own = tuple(name for name, parts in fields if any(self[part] is not None for part in parts))
        projection = self[kind] = self._compile(kind, steps, own) if steps or own else None
        return projection

    def _chain(self, kind: type) -> list[tuple[int, Downgrade]]:
        """Return the downgrades of a type, newest first, with their ages; adjacent ``Without`` are merged."""
        steps: list[tuple[int, Downgrade]] = []
        for age, table in enumerate(self.newer):
            step = table.get(kind)
            last = steps[-1][1] if steps else None
            if isinstance(step, Without) and isinstance(last, Without):
                steps.pop()
                step = Without(last.fields + step.fields)
            if step is not None:
                steps.append((age, step))
        return steps

    def _compile(self, kind: type, chain: Sequence[tuple[int, Downgrade]], own: Sequence[str]) -> Downgrade:
        newer = self.newer
        steps = [
            (age, absent_fields(kind, step.fields) if isinstance(step, Without) else {}, step) for age, step in chain
        ]

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
                    projection = self[type(part)]
                    if projection is not None:
                        projected = projection(part)
                        if projected is not part:
                            changed[name] = projected
                    continue
                for index, item in enumerate(part):
                    projection = self[type(item)]
                    if projection is not None:
                        projected = projection(item)
                        if projected is not item:
                            if name not in changed:
                                changed[name] = part.copy()
                            changed[name][index] = projected
            return msgspec.structs.replace(value, **changed) if changed else value

        return apply
