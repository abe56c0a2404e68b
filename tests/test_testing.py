"""The contract of providers can fail: each broken provider is found by the test that is meant to find it."""

import asyncio
import os
import subprocess
import sys
from typing import Any

import pytest

from carrel.catalog.provider import Change, Hit, Page, Provider
from carrel.errors import InvalidCursor, ResourceNotFound, ToolError
from carrel.testing import ProviderContract
from carrel.wire.base import Annotations
from carrel.wire.completion import Completion
from carrel.wire.content import TextContent
from carrel.wire.prompts import GetPromptResult
from carrel.wire.resources import (
    BlobResourceContents,
    ReadResourceResult,
    Resource,
    TextResourceContents,
)
from carrel.wire.skills import Skill, SkillResource
from carrel.wire.tools import CallToolResult, Tool
from support.words import Words, WordsContract, after

#: Code that runs as if neither pytest nor pytest-asyncio were installed.
WITHOUT_PYTEST = """
import importlib.util, sys
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name.startswith("pytest") else find_spec(name, *rest)
sys.modules["pytest"] = sys.modules["pytest_asyncio"] = None
from carrel.testing import Caller, connect
try:
    from carrel.testing import ProviderContract
except ModuleNotFoundError as error:
    print(error)
"""


def test_connections_need_no_pytest_and_contracts_name_it() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_PYTEST], capture_output=True, text=True, timeout=60)
    assert done.stdout == (
        "carrel.testing.ProviderContract needs pytest and pytest_asyncio: pip install pytest pytest-asyncio\n"
    ), done.stderr


class TestWords(WordsContract):
    """The provider that keeps the contract."""


# Broken in one way each


class CursorsAreIndexes(Words):
    def list_resources(self, request):
        try:
            start = 0 if request.cursor is None else int(request.cursor.removeprefix("at "))
        except ValueError:
            raise InvalidCursor from None
        names = sorted(self.words)
        end = start + request.limit
        return Page([self.resource(name) for name in names[start:end]], f"at {end}" if end < len(names) else None)


class CursorsAreForgotten(Words):
    def __init__(self, words=None):
        super().__init__(words)
        self.given: dict[str, Any] = {}

    def list_resources(self, request):
        if request.cursor is not None and request.cursor not in self.given:
            raise InvalidCursor
        cursor = None if request.cursor is None else self.given[request.cursor]
        page = super().list_resources(request.page(cursor, request.limit))
        if page.next_cursor is None:
            return page
        self.given[f"cursor {len(self.given)}"] = page.next_cursor
        return Page(page.items, f"cursor {len(self.given) - 1}")


class AnyCursorIsTheStart(Words):
    def list_resources(self, request):
        try:
            return super().list_resources(request)
        except InvalidCursor:
            return super().list_resources(request.page(None, request.limit))


class CursorsFitEveryList(Words):
    def list_directory(self, uri, request):
        if uri != "word:a":
            raise ResourceNotFound(uri)
        return after({name: self.resource(name) for name in "bcd"}, request, "words")


class OrderChanges(Words):
    def list_resources(self, request):
        page = super().list_resources(request)
        return Page(page.items[::-1], page.next_cursor)


class LimitIsIgnored(Words):
    def list_resources(self, request):
        return super().list_resources(request.page(request.cursor, request.limit + 1))


class ListedTwice(Words):
    def list_tools(self, request):
        return Page([Tool(name="x", input_schema={"type": "object"})] * 2)


class ListedElsewhere(Words):
    def resource(self, name):
        return Resource(f"world:{name}", name)


class TimesOfNoZone(Words):
    def resource(self, name):
        return Resource(f"word:{name}", name, annotations=Annotations(last_modified="2025-01-01 10:00"))


class ErrorsAreSwallowed(Words):
    def read_resource(self, uri, request):
        try:
            return super().read_resource(uri, request)
        except ResourceNotFound:
            return ReadResourceResult(contents=[])


class OwnErrors(Words):
    def read_resource(self, uri, request):
        return ReadResourceResult(contents=[TextResourceContents(uri, self.words[uri.removeprefix("word:")])])


class SizesAreWrong(Words):
    def resource(self, name):
        return Resource(f"word:{name}", name, size=1)

    def read_resource(self, uri, request):
        contents = super().read_resource(uri, request).contents[0]
        return ReadResourceResult(contents=[BlobResourceContents(uri, contents.text.encode())])


class DirectoriesOfNothing(Words):
    def list_directory(self, uri, request):
        return Page(())


class SuggestsWhateverIsTyped(Words):
    def complete(self, reference, argument, value, context, request):
        super().complete(reference, argument, value, context, request)
        return Completion(sorted(self.words))


class SuggestsForUnknownTemplates(Words):
    def complete(self, reference, argument, value, context, request):
        return Completion([name for name in self.words if name.startswith(value)])


class WorstFirst(Words):
    def search(self, query, request):
        return Page(super().search(query, request.page(None, 100)).items[::-1])


class FindsNonsense(Words):
    def search(self, query, request):
        return Page([Hit(self.resource("a"), 1.0)])


class AnyToolIsCalled(Words):
    def call_tool(self, name, arguments, request):
        return CallToolResult(content=[TextContent("done")])


class ToolThatFails(Words):
    def call_tool(self, name, arguments, request):
        raise ToolError("no")


class AnyPromptIsGot(Words):
    def get_prompt(self, name, arguments, request):
        return GetPromptResult(messages=[])


class SkillsThatDiffer(Words):
    def get_skill(self, uri, request):
        skill = super().get_skill(uri, request)
        return Skill(skill.uri, {}, skill.resources)


class DigestsOfOtherBytes(Words):
    def skill(self, name):
        return Skill(f"word:{name}", {"name": name}, [SkillResource(f"word:{name}", f"sha256:{'0' * 64}", 0)])


class DescriptorsLeak(Words):
    def read_resource(self, uri, request):
        os.open(os.devnull, os.O_RDONLY)
        return super().read_resource(uri, request)


class WatchWithoutAnEmptyBatch(Words):
    async def watch(self, interest):
        async for batch in super().watch(interest):
            yield batch or [Change("changed", "word:a")]


class WatchThatEndsAtOnce(Words):
    async def watch(self, interest):
        return
        yield ()


class WatchOfOne(Words):
    async def watch(self, interest):
        self.listeners.clear()
        async for batch in super().watch(interest):
            yield batch


class ChangesAreCalledCreations(Words):
    def report(self, kind, name):
        super().report("created", name)


class WatchThatSurvives(Words):
    async def stop(self):
        pass


class CancellationIsSwallowed(Words):
    async def watch(self, interest):
        yield ()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            yield ()


class TasksAreLeft(Words):
    async def start(self, events):
        self.task = asyncio.ensure_future(asyncio.Event().wait())


class OneAtATime(Words):
    busy = False

    async def read_resource(self, uri, request):
        assert not self.busy, "two reads at a time"
        self.busy = True
        await asyncio.sleep(0)
        self.busy = False
        return super().read_resource(uri, request)


class SubscribersHearNothing(Words):
    async def watch(self, interest):
        async for batch in super().watch(interest):
            if not batch or batch[0].kind != "changed":
                yield batch


FOUND = {
    "test_pages_of_any_size_give_everything_once_in_the_same_order": [OrderChanges, LimitIsIgnored, ListedTwice],
    "test_a_page_goes_on_where_it_was_whatever_appears_meanwhile": [CursorsAreIndexes],
    "test_a_page_goes_on_where_it_was_whatever_disappears_meanwhile": [CursorsAreIndexes],
    "test_a_cursor_goes_on_in_another_instance_of_the_provider": [CursorsAreForgotten],
    "test_a_cursor_that_was_never_given_out_is_refused": [AnyCursorIsTheStart],
    "test_the_cursor_of_one_list_is_refused_by_another": [CursorsFitEveryList],
    "test_what_is_listed_is_described_as_the_protocol_wants": [ListedElsewhere, TimesOfNoZone],
    "test_what_is_listed_can_be_read": [SizesAreWrong, ListedElsewhere],
    "test_what_is_not_there_is_not_found": [ErrorsAreSwallowed, OwnErrors],
    "test_what_cannot_be_read_is_refused_with_a_documented_error": [ErrorsAreSwallowed],
    "test_what_belongs_to_others_is_not_read": [ErrorsAreSwallowed],
    "test_a_hostile_uri_meets_with_a_documented_error": [OwnErrors],
    "test_directories_come_in_pages_as_well": [DirectoriesOfNothing],
    "test_what_is_no_directory_has_no_entries": [DirectoriesOfNothing],
    "test_completion_of_nonsense_suggests_nothing": [SuggestsWhateverIsTyped],
    "test_completion_of_an_unknown_template_or_variable_is_refused": [SuggestsForUnknownTemplates],
    "test_search_finds_best_first_and_no_more_than_asked_for": [WorstFirst, FindsNonsense],
    "test_search_for_nonsense_finds_nothing": [FindsNonsense],
    "test_an_unknown_tool_is_refused": [AnyToolIsCalled],
    "test_a_tool_can_be_called": [ToolThatFails],
    "test_an_unknown_prompt_is_refused": [AnyPromptIsGot],
    "test_a_skill_is_the_same_by_itself_as_in_the_list": [SkillsThatDiffer],
    "test_the_manifest_of_a_skill_is_true_to_the_byte": [DigestsOfOtherBytes],
    "test_changes_are_reported_as_what_they_are": [
        WatchWithoutAnEmptyBatch,
        WatchThatEndsAtOnce,
        ChangesAreCalledCreations,
    ],
    "test_two_watches_both_hear": [WatchOfOne],
    "test_every_accepted_subscription_is_notified": [SubscribersHearNothing],
    "test_a_watch_ends_when_the_provider_stops": [WatchThatSurvives],
    "test_a_watch_can_be_cancelled_while_it_waits": [CancellationIsSwallowed],
    "test_stop_lets_go_of_everything": [TasksAreLeft, DescriptorsLeak],
    "test_no_operation_leaves_a_descriptor_open": [DescriptorsLeak],
    "test_everything_may_be_asked_for_at_once": [OneAtATime],
}
CASES = [(test, broken) for test, group in FOUND.items() for broken in group]


@pytest.mark.parametrize(("test", "broken"), CASES, ids=[f"{broken.__name__}-{test}" for test, broken in CASES])
async def test_a_broken_provider_is_found(test: str, broken: type[Words], monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("caller", "changes", "subscribing"):
        monkeypatch.setattr(f"carrel.testing.{module}.TIMEOUT", 0.2)
    contract = TestWords()
    with pytest.raises((Exception, pytest.fail.Exception)) as raised:
        await getattr(contract, test)(
            broken({**{name: name * 3 for name in ("a", "b", "bb", "c", "d")}, "s": "", "t": ""})
        )
    assert not isinstance(raised.value, pytest.skip.Exception), raised.value
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()


def test_every_test_of_the_contract_has_a_provider_that_it_finds() -> None:
    tests = {name for name in dir(ProviderContract) if name.startswith("test_")}
    alike = {
        "test_a_cursor_of_a_directory_goes_on_in_another_instance",
        "test_a_cursor_that_was_tampered_with_is_refused_or_does_no_harm",
        "test_a_prompt_can_be_got",
        "test_a_provider_without_directories_says_so",
        "test_completion_suggests_what_goes_on_from_what_is_typed",
        "test_templates_are_templates",
        "test_tools_are_described_as_the_protocol_wants",
        "test_a_uri_that_is_no_skill_is_not_found",
        "test_what_is_over_the_limit_is_refused_with_advice",
    }
    assert tests - set(FOUND) == alike


@pytest.mark.parametrize("test", [name for name in dir(ProviderContract) if name.startswith("test_")])
async def test_what_a_provider_does_not_offer_is_skipped_and_never_passed(test: str) -> None:
    class Nothing(Provider):
        name = "nothing"

    class Contract(ProviderContract):
        pass

    lives = {
        "test_what_belongs_to_others_is_not_read",
        "test_no_operation_leaves_a_descriptor_open",
        "test_stop_lets_go_of_everything",
    }
    if test in lives:
        await getattr(Contract(), test)(Nothing())
        return
    with pytest.raises(pytest.skip.Exception, match="Nothing has "):
        await getattr(Contract(), test)(Nothing())
