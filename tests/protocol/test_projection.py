"""What leaves for a revision has exactly the fields of that revision: nothing newer leaks, nothing older is lost."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from msgspec import UNSET, Raw, UnsetType

from carrel.protocol.projection import INSIDE, Projections
from carrel.protocol.revision import without
from carrel.protocol.revisions import REVISIONS
from carrel.wire import (
    base,
    completion,
    content,
    lifecycle,
    prompts,
    resources,
    tools,
    utilities,
)
from carrel.wire import client_features as asking
from carrel.wire.client_features import CreateMessageResult, ElicitResult, ToolUseContent
from carrel.wire.content import AudioContent, EmbeddedResource, ImageContent, ResourceLink, TextContent
from carrel.wire.resources import BlobResourceContents, Resource, ResourceContents, TextResourceContents
from carrel.wire.tools import CallToolResult, Tool
from support.server_connection import ALL, HANDSHAKES, JUNE, LATEST, MARCH, NOVEMBER, OLDEST

#: The properties of each definition in the schemas, and in which revision they came.
FIELDS: dict[str, dict[str, str]] = {
    "Icon": {NOVEMBER: "src mimeType sizes theme"},
    "Annotations": {OLDEST: "audience priority", JUNE: "lastModified"},
    "Implementation": {OLDEST: "name version", JUNE: "title", NOVEMBER: "description icons websiteUrl"},
    "ServerCapabilities": {
        OLDEST: "experimental logging prompts resources tools",
        MARCH: "completions",
        NOVEMBER: "tasks",
        LATEST: "extensions",
    },
    "ListChanged": {OLDEST: "listChanged"},
    "ResourcesCapability": {OLDEST: "listChanged subscribe"},
    "Resource": {
        OLDEST: "uri name description mimeType size annotations",
        JUNE: "_meta title",
        NOVEMBER: "icons",
    },
    "ResourceTemplate": {
        OLDEST: "uriTemplate name description mimeType annotations",
        JUNE: "_meta title",
        NOVEMBER: "icons",
    },
    "TextResourceContents": {OLDEST: "uri text mimeType", JUNE: "_meta"},
    "BlobResourceContents": {OLDEST: "uri blob mimeType", JUNE: "_meta"},
    "TextContent": {OLDEST: "type text annotations", JUNE: "_meta"},
    "ImageContent": {OLDEST: "type data mimeType annotations", JUNE: "_meta"},
    "AudioContent": {MARCH: "type data mimeType annotations", JUNE: "_meta"},
    "ResourceLink": {
        JUNE: "type uri name title description mimeType size annotations _meta",
        NOVEMBER: "icons",
    },
    "EmbeddedResource": {OLDEST: "type resource annotations", JUNE: "_meta"},
    "Tool": {
        OLDEST: "name description inputSchema",
        MARCH: "annotations",
        JUNE: "_meta outputSchema title",
        NOVEMBER: "icons execution",
    },
    "ToolAnnotations": {MARCH: "title readOnlyHint destructiveHint idempotentHint openWorldHint"},
    "Prompt": {OLDEST: "name description arguments", JUNE: "_meta title", NOVEMBER: "icons"},
    "PromptArgument": {OLDEST: "name description required", JUNE: "title"},
    "PromptMessage": {OLDEST: "role content"},
    "Completion": {OLDEST: "values total hasMore"},
    "Result": {OLDEST: "_meta", LATEST: "resultType"},
    "InitializeResult": {OLDEST: "_meta protocolVersion capabilities serverInfo instructions"},
    "DiscoverResult": {LATEST: "_meta supportedVersions capabilities instructions resultType ttlMs cacheScope"},
    "ListResourcesResult": {OLDEST: "_meta nextCursor resources", LATEST: "resultType ttlMs cacheScope"},
    "ListResourceTemplatesResult": {
        OLDEST: "_meta nextCursor resourceTemplates",
        LATEST: "resultType ttlMs cacheScope",
    },
    "ReadResourceResult": {OLDEST: "_meta contents", LATEST: "resultType ttlMs cacheScope"},
    "ListToolsResult": {OLDEST: "_meta nextCursor tools", LATEST: "resultType ttlMs cacheScope"},
    "CallToolResult": {OLDEST: "_meta content isError", JUNE: "structuredContent", LATEST: "resultType"},
    "ListPromptsResult": {OLDEST: "_meta nextCursor prompts", LATEST: "resultType ttlMs cacheScope"},
    "GetPromptResult": {OLDEST: "_meta description messages", LATEST: "resultType"},
    "CompleteResult": {OLDEST: "_meta completion", LATEST: "resultType"},
    "ListenResult": {LATEST: "_meta resultType"},
    "SubscriptionFilter": {  # taskIds is the tasks extension's
        LATEST: "toolsListChanged promptsListChanged resourcesListChanged resourceSubscriptions taskIds"
    },
    "ToolExecution": {NOVEMBER: "taskSupport"},
    "AcknowledgedParams": {LATEST: "_meta notifications"},
    "ResourceUpdatedParams": {OLDEST: "uri _meta"},  # all parameters of notifications may have _meta
    "LoggingMessageParams": {OLDEST: "level logger data _meta"},
    "ProgressParams": {OLDEST: "progressToken progress total _meta", MARCH: "message"},
    # What clients send. Their parameters have _meta too; it is written last, for the revision that it goes to.
    "ClientCapabilities": {  # extensions are for all: hosts of apps declare theirs in every revision
        OLDEST: "experimental roots sampling extensions",
        JUNE: "elicitation",
        NOVEMBER: "tasks",
    },
    "InitializeParams": {OLDEST: "protocolVersion capabilities clientInfo"},
    "PageParams": {OLDEST: "cursor"},
    "ReadResourceParams": {OLDEST: "uri", LATEST: "inputResponses requestState"},
    "SubscribeParams": {OLDEST: "uri"},
    "CallToolParams": {OLDEST: "name arguments", NOVEMBER: "task", LATEST: "inputResponses requestState"},
    "TaskMetadata": {NOVEMBER: "ttl"},
    "GetPromptParams": {OLDEST: "name arguments", LATEST: "inputResponses requestState"},
    "CompleteParams": {OLDEST: "ref argument", JUNE: "context"},
    "PromptReference": {OLDEST: "type name", JUNE: "title"},
    "CompletionArgument": {OLDEST: "name value"},
    "CompletionContext": {JUNE: "arguments"},
    "SetLevelParams": {OLDEST: "level"},
    "ListenParams": {LATEST: "notifications"},
    "CancelledParams": {OLDEST: "requestId reason"},
    "ElicitResult": {JUNE: "action content _meta"},
    "CreateMessageResult": {OLDEST: "role content model stopReason _meta"},
    "ListRootsResult": {OLDEST: "roots _meta"},
    "Root": {OLDEST: "uri name", JUNE: "_meta"},
}

#: What a revision took away again, by definition.
GONE = {
    LATEST: {
        "ServerCapabilities": {"tasks"},
        "Tool": {"execution"},
        "ClientCapabilities": {"tasks"},
        "CallToolParams": {"task"},
        "ElicitResult": {"_meta"},
        "ListRootsResult": {"_meta"},
    }
}

#: What a server or a client sends as a whole, and the revisions in which it does.
SENT: dict[str, tuple[str, ...]] = {
    "ListResourcesResult": ALL,
    "ListResourceTemplatesResult": ALL,
    "ReadResourceResult": ALL,
    "ListToolsResult": ALL,
    "CallToolResult": ALL,
    "ListPromptsResult": ALL,
    "GetPromptResult": ALL,
    "CompleteResult": ALL,
    "ResourceUpdatedParams": ALL,
    "LoggingMessageParams": ALL,
    "ProgressParams": ALL,
    "InitializeResult": HANDSHAKES,
    "DiscoverResult": (LATEST,),
    "ListenResult": (LATEST,),
    "AcknowledgedParams": (LATEST,),
    "InitializeParams": HANDSHAKES,
    "PageParams": ALL,
    "ReadResourceParams": ALL,
    "SubscribeParams": HANDSHAKES,
    "CallToolParams": ALL,
    "GetPromptParams": ALL,
    "CompleteParams": ALL,
    "SetLevelParams": HANDSHAKES,
    "ListenParams": (LATEST,),
    "CancelledParams": ALL,
    "ElicitResult": (JUNE, NOVEMBER, LATEST),
    "CreateMessageResult": ALL,
    "ListRootsResult": ALL,
}

#: The content blocks that a message or a tool result may hold.
BLOCKS: dict[str, set[str]] = {
    OLDEST: {"TextContent", "ImageContent", "EmbeddedResource"},
    MARCH: {"TextContent", "ImageContent", "AudioContent", "EmbeddedResource"},
}
BLOCKS |= {revision: BLOCKS[MARCH] | {"ResourceLink"} for revision in (JUNE, NOVEMBER, LATEST)}

KINDS: dict[str, type[msgspec.Struct]] = {
    name: kind
    for module in (asking, base, completion, content, lifecycle, prompts, resources, tools, utilities)
    for name, kind in vars(module).items()
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct)
}
HINTS: dict[type, dict[str, Any]] = {
    kind: {name: hint for name, hint in get_type_hints(kind).items() if get_origin(hint) is not ClassVar}
    for kind in KINDS.values()
}


def fields_of(name: str, revision: str) -> set[str]:
    """The properties that a definition has in a revision; none if it is not there yet."""
    came = (names.split() for since, names in FIELDS[name].items() if since <= revision)
    return {field for names in came for field in names} - GONE.get(revision, {}).get(name, set())


def structs_in(hint: Any) -> Iterator[type[msgspec.Struct]]:
    """The structs that a value of a type may be, or may hold."""
    if hint is ResourceContents:
        yield from (TextResourceContents, BlobResourceContents)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        yield hint
    for part in get_args(hint):
        yield from structs_in(part)


def maximal(hint: Any) -> Any:
    """A value of a type that has every field, every alternative and every item that the type allows."""
    if hint is base.RequestMeta:
        return None
    if hint is ResourceContents:
        return maximal(TextResourceContents)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return hint(**{name: maximal(part) for name, part in HINTS[hint].items()})
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return maximal(next(part for part in parts if part is not UnsetType))
    if origin is list:
        alternatives = get_args(parts[0]) if get_origin(parts[0]) in (Union, types.UnionType) else (parts[0],)
        if parts[0] is ResourceContents:
            alternatives = tuple(structs_in(ResourceContents))
        return [maximal(alternative) for alternative in alternatives]
    if origin is Literal:
        return parts[0]
    if origin is dict or hint is dict:
        return {"type": "object", "key": "value", "form": {}}
    simple = {str: "text", int: 7, float: 0.5, bool: True, bytes: b"bytes", Any: {"any": 1}, Raw: Raw(b"{}")}
    return simple[hint]


def nodes(value: Any) -> Iterator[msgspec.Struct]:
    """Every struct in a value, itself first."""
    if isinstance(value, msgspec.Struct):
        yield value
        for name in value.__struct_fields__:
            yield from nodes(getattr(value, name))
    elif isinstance(value, list):
        for item in value:
            yield from nodes(item)


def cases() -> list[tuple[str, str]]:
    return [(name, revision) for name, revisions in SENT.items() for revision in revisions]


@pytest.mark.parametrize(("name", "revision"), cases())
def test_a_value_with_everything_leaves_with_exactly_what_its_revision_has(name: str, revision: str) -> None:
    projected = REVISIONS[revision].project(maximal(KINDS[name]))
    seen = set()
    for node in nodes(projected):
        kind = type(node).__name__
        seen.add(kind)
        allowed = fields_of(kind, revision)
        present = set(msgspec.json.decode(msgspec.json.encode(node)))
        assert allowed, f"{revision} has no {kind}"
        assert present <= allowed, f"{kind}: {present - allowed} came after {revision}"
        ours = set(type(node).__struct_encode_fields__) | ({"type"} & allowed)
        if kind not in ("TextContent", "EmbeddedResource", "BlobResourceContents"):  # these also stand in for others
            assert present == allowed & ours, f"{kind}: {allowed & ours - present} is lost"
    if name == "CallToolResult":
        assert seen & {kind.__name__ for kind in structs_in(content.ContentBlock)} == BLOCKS[revision]


@pytest.mark.parametrize("revision", ALL)
@pytest.mark.parametrize("kind", ["TextContent", "EmbeddedResource", "BlobResourceContents", "TextResourceContents"])
def test_what_also_stands_in_for_others_keeps_all_its_own_fields(kind: str, revision: str) -> None:
    projected = REVISIONS[revision].project(maximal(KINDS[kind]))
    assert set(msgspec.to_builtins(projected)) == fields_of(kind, revision)


@pytest.mark.parametrize("revision", ALL)
@pytest.mark.parametrize("block", sorted(kind.__name__ for kind in structs_in(content.ContentBlock)))
def test_a_message_of_a_prompt_holds_only_blocks_that_its_revision_has(block: str, revision: str) -> None:
    message = prompts.PromptMessage("user", maximal(KINDS[block]))
    projected = REVISIONS[revision].project(message)
    assert type(projected.content).__name__ in BLOCKS[revision]
    for node in nodes(projected):
        assert set(msgspec.to_builtins(node)) <= fields_of(type(node).__name__, revision)


def test_every_type_that_is_sent_is_in_the_table() -> None:
    reached = {type(node).__name__ for name in SENT for node in nodes(maximal(KINDS[name]))}
    assert reached | {"Result"} == set(FIELDS)


def inside(kind: type) -> dict[str, set[type[msgspec.Struct]]]:
    """The structs that each field of a kind may hold, by its type hints.

    A request's own ``_meta`` is not among them: it is written last, for the revision that it goes to.
    """
    hints = {
        name: set(structs_in(hint)) - {base.RequestMeta}
        for name, hint in get_type_hints(kind).items()
        if get_origin(hint) is not ClassVar
    }
    return {name: found for name, found in hints.items() if found}


def changes(kind: type) -> bool:
    """Whether a kind, or anything inside it, ever looked different."""
    if any(kind in revision.before for revision in REVISIONS.values()):
        return True
    return any(changes(part) for parts in inside(kind).values() for part in parts)


def test_the_table_of_what_is_inside_what_is_true_and_complete() -> None:
    reached = {type(node) for name in SENT for node in nodes(maximal(KINDS[name]))}
    for kind in reached | set(INSIDE):
        written = {name: set(parts) for name, parts in INSIDE.get(kind, {}).items()}
        by_hints = inside(kind)
        assert written.items() <= by_hints.items(), kind
        assert {name for name, parts in by_hints.items() if any(map(changes, parts))} <= set(written), kind


@pytest.mark.parametrize(("name", "revision"), cases())
def test_a_minimal_value_is_not_changed(name: str, revision: str) -> None:
    kind = KINDS[name]
    value = kind(**{field.name: maximal(field.type) for field in msgspec.structs.fields(kind) if field.required})
    before = msgspec.json.encode(value)
    REVISIONS[revision].project(value)
    assert msgspec.json.encode(value) == before


# Downgrades that are more than leaving out


def test_audio_is_an_embedded_resource_for_those_who_know_no_audio() -> None:
    block = AudioContent(b"RIFF", "audio/wav", annotations=base.Annotations(priority=1, last_modified="x"))
    old = REVISIONS[OLDEST].project(CallToolResult(content=[block])).content[0]
    assert isinstance(old, EmbeddedResource)
    assert isinstance(old.resource, BlobResourceContents)
    assert (old.resource.blob, old.resource.mime_type) == (b"RIFF", "audio/wav")
    assert old.annotations == base.Annotations(priority=1)
    assert isinstance(REVISIONS[MARCH].project(block), AudioContent)


@pytest.mark.parametrize("revision", [OLDEST, MARCH])
def test_a_link_is_text_for_those_who_know_no_links(revision: str) -> None:
    link = ResourceLink("file:///a", "a.txt", annotations=base.Annotations(audience=["user"], last_modified="x"))
    old = REVISIONS[revision].project(CallToolResult(content=[link])).content[0]
    assert isinstance(old, TextContent)
    assert "file:///a" in old.text
    assert "a.txt" in old.text
    assert old.annotations == base.Annotations(audience=["user"])


@pytest.mark.parametrize("value", [[1], "text", 5, True, None])
def test_structured_content_was_an_object(value: Any) -> None:
    result = CallToolResult(content=[], structured_content=value)
    assert REVISIONS[LATEST].project(result).structured_content == value
    for revision in (JUNE, NOVEMBER):
        assert REVISIONS[revision].project(result).structured_content is UNSET
        kept = CallToolResult(content=[], structured_content={"a": value})
        assert REVISIONS[revision].project(kept).structured_content == {"a": value}


@pytest.mark.parametrize(
    "schema", [{"type": "array"}, {"type": "string"}, {}, {"anyOf": []}, {"type": ["object", "null"]}]
)
def test_an_output_schema_described_an_object(schema: dict[str, Any]) -> None:
    tool = Tool(name="t", input_schema={"type": "object"}, output_schema=schema)
    assert REVISIONS[LATEST].project(tool).output_schema == schema
    for revision in (JUNE, NOVEMBER):
        assert REVISIONS[revision].project(tool).output_schema is None


TEXT, TOOL_USE = TextContent("Paris"), ToolUseContent("1", "search", {})
IMAGE, AUDIO = ImageContent(b"PNG", "image/png"), AudioContent(b"RIFF", "audio/wav")


@pytest.mark.parametrize("revision", ALL)
@pytest.mark.parametrize(
    "content", [TEXT, IMAGE, AUDIO, TOOL_USE, [], [TEXT, TEXT], [TOOL_USE], [IMAGE, TOOL_USE], [TOOL_USE, AUDIO]]
)
def test_what_a_model_said_holds_only_what_its_revision_has(revision: str, content: Any) -> None:
    projected = REVISIONS[revision].project(CreateMessageResult(role="assistant", model="m", content=content)).content
    if revision >= NOVEMBER:
        assert projected == content
        return
    audio = set() if revision == OLDEST else {AudioContent}
    assert type(projected) in {TextContent, ImageContent, *audio}


def test_several_texts_of_a_model_were_one() -> None:
    result = CreateMessageResult(role="assistant", model="m", content=[TEXT, IMAGE, TextContent(", of course")])
    for revision in (OLDEST, MARCH, JUNE):
        assert REVISIONS[revision].project(result).content == TextContent("Paris, of course")


@pytest.mark.parametrize("revision", ALL)
def test_what_a_model_said_has_no_newer_fields_inside(revision: str) -> None:
    text = TextContent("x", meta={"k": 1}, annotations=base.Annotations(priority=1, last_modified="x"))
    projected = REVISIONS[revision].project(CreateMessageResult(role="assistant", model="m", content=text)).content
    assert (projected.meta is None) is (revision < JUNE)
    assert (projected.annotations.last_modified is None) is (revision < JUNE)


@pytest.mark.parametrize("revision", ALL)
def test_annotations_without_a_date_are_the_same_in_all_revisions(revision: str) -> None:
    text = TextContent("x", annotations=base.Annotations(priority=1))
    assert REVISIONS[revision].project(text).annotations == base.Annotations(priority=1)
    dated = TextContent("x", annotations=base.Annotations(last_modified="x"))
    assert REVISIONS[revision].project(dated).annotations == (None if revision < JUNE else dated.annotations)


@pytest.mark.parametrize(
    ("declared", "expected"),
    [({}, {}), ({"form": {}}, {}), ({"form": {}, "url": {}}, {}), ({"url": {}}, None), (None, None)],
)
def test_elicitation_was_forms_and_nothing_else(declared: Any, expected: Any) -> None:
    capabilities = base.ClientCapabilities(elicitation=declared)
    assert REVISIONS[JUNE].project(capabilities).elicitation == expected
    assert REVISIONS[MARCH].project(capabilities).elicitation is None
    assert REVISIONS[NOVEMBER].project(capabilities).elicitation == declared


def test_sampling_had_no_capabilities_of_its_own() -> None:
    capabilities = base.ClientCapabilities(sampling={"tools": {}, "context": {}}, tasks={"list": {}})
    for revision in (OLDEST, MARCH, JUNE):
        projected = REVISIONS[revision].project(capabilities)
        assert (projected.sampling, projected.tasks) == ({}, None)
    assert REVISIONS[NOVEMBER].project(capabilities) == capabilities
    assert REVISIONS[LATEST].project(capabilities).sampling == {"tools": {}, "context": {}}


def test_changes_of_roots_are_not_notified_any_more() -> None:
    capabilities = base.ClientCapabilities(roots={"listChanged": True})
    assert REVISIONS[LATEST].project(capabilities).roots == {}
    assert REVISIONS[OLDEST].project(capabilities).roots == {"listChanged": True}


def test_the_answer_of_a_user_has_no_metadata_within_a_request() -> None:
    answer = ElicitResult(action="accept", content={"a": 1}, meta={"k": 1})
    assert REVISIONS[LATEST].project(answer) == ElicitResult(action="accept", content={"a": 1})
    assert REVISIONS[JUNE].project(answer) is answer


def test_only_what_differs_is_copied() -> None:
    plain, titled = Resource("a:1", "one"), Resource("a:2", "two", title="Two")
    result = resources.ListResourcesResult(resources=[plain, titled])
    projected = REVISIONS[OLDEST].project(result)
    assert projected.resources[0] is plain
    assert projected.resources[1] == Resource("a:2", "two")
    assert REVISIONS[OLDEST].project(resources.ListResourcesResult(resources=[plain])).resources == [plain]
    assert titled.title == "Two"


def test_a_value_that_turns_into_another_type_gets_that_types_history() -> None:
    def text(link: ResourceLink) -> TextContent:
        return TextContent(link.name, meta={"k": 1}, annotations=base.Annotations(last_modified="x"))

    newer = [{}, {ResourceLink: text}, {TextContent: without("meta"), base.Annotations: without("last_modified")}]
    projections = Projections(newer)
    assert projections[ResourceLink](ResourceLink("a:b", "b")) == TextContent("b", annotations=base.Annotations())
