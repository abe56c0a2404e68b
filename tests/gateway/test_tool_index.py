"""Index of tools: what ranks first, how often the tool that is meant is among the first five, and at what cost."""

import asyncio
import json
import time

import pytest

from carrel import Client
from carrel.gateway.tool_index import ToolIndex
from carrel.vendors.token_estimate import estimate_tokens, tokens_of_tools
from support.parties import node_modules, node_program, python
from support.tool_descriptions import described, many, tool

#: What people ask for, and the names of the tools that do it; of several, one has to be found.
QUERIES = {
    "read a file": "read_text_file|read_file",
    "what changed in my working tree since the last commit": "git_diff_unstaged|git_diff|git_status",
    "show the commit history": "git_log",
    "stage files for commit": "git_add",
    "switch to another branch": "git_checkout",
    "make a new branch": "git_create_branch",
    "unstage changes": "git_reset",
    "save changes to the repository with a message": "git_commit",
    "rename a file": "move_file",
    "make a folder": "create_directory",
    "what is in this directory": "list_directory|list_directory_with_sizes|directory_tree",
    "how big is a file": "get_file_info|list_directory_with_sizes",
    "find files by pattern": "search_files",
    "replace some lines in a text file": "edit_file",
    "load an image as base64": "read_media_file",
    "which folders may I access": "list_allowed_directories",
    "several files at once": "read_multiple_files",
    "time in Tokyo": "get_current_time|convert_time",
    "convert a time to another timezone": "convert_time",
    "download a web page as markdown": "fetch",
    "add two numbers": "get-sum",
    "echo back text": "echo",
    "environment variables": "get-env",
    "long running operation": "trigger-long-running-operation",
    "compress a file": "gzip-file-as-resource",
    "remember a fact about a person": "add_observations|create_entities",
    "search the knowledge graph": "search_nodes|read_graph",
    "forget an entity": "delete_entities",
    "report a bug in a repository": "github_create_issue",
    "open issue": "github_create_issue",
    "comment on a pull request": "github_add_issue_comment",
    "merge PR pull request": "github_merge_pull_request",
    "rerun failed CI": "github_rerun_workflow",
    "send a message to a slack channel": "slack_post_message",
    "answer in the thread": "slack_reply_to_thread",
    "schedule a meeting": "calendar_create_event|calendar_find_free_time",
    "cancel appointment": "calendar_delete_event",
    "when are Ada and Lem both free": "calendar_find_free_time",
    "send an email": "mail_send_message",
    "find mails from my boss": "mail_search_messages",
    "columns of a table": "postgres_describe_table",
    "run SQL": "postgres_run_query",
    "why is my query slow: show plan": "postgres_explain_query",
    "screenshot of the page": "browser_take_screenshot",
    "will it rain tomorrow, weather": "weather_get_forecast",
    "storm warnings": "weather_get_alerts",
    "route from Berlin to Prague by train": "maps_get_directions",
    "restaurants nearby": "maps_search_places",
    "coordinates of an address": "maps_geocode",
    "give a customer the money back, refund": "shop_refund_order",
    "where is my parcel": "shop_track_shipment",
    "container logs": "k8s_get_pod_logs",
    "scale up replicas": "k8s_scale_deployment",
    "upload to S3": "aws_s3_upload_object",
    "create jira ticket": "jiraCreateTicket",
    "assign ticket to Ada": "jiraAssignTicket",
    "new notion page": "notion-create-page",
    "invoice for a customer": "stripe_create_invoice",
    "play music song": "spotify_play_track",
    "translate into German": "translate_text",
    "resize picture": "image_resize",
    "text from PDF": "pdf_extract_text",
    "transcribe a recording": "audio_transcribe",
    "文書を探す": "文書検索",
    "会議室": "会議室予約",
    "天气预报": "查询天气",
    "短信": "发送短信",
    "screnshot": "browser_take_screenshot",
    "kubernetes pods list": "k8s_list_pods",
    "exceptions in production": "sentry_list_errors",
}
#: The share of these queries whose tool is among the first five, and the share of those whose tool is the first.
RECALL, FIRST = 0.95, 0.75


def names(index, query):
    return [found.tool.name for found in index.search(query)]


def test_the_tool_of_that_name_is_first_and_then_those_whose_names_begin_so():
    tools = [
        tool("read", "Read"),
        tool("issue_reader", "create issue create issue create issue"),
        tool("create_issue_comment", "Comment"),
        tool("create_issue", "Write"),
    ]
    index = ToolIndex(tools)
    for query in ("create_issue", "createIssue", "create issue", "CREATE-ISSUE"):
        assert names(index, query)[:3] == ["create_issue", "create_issue_comment", "issue_reader"]
        assert [found.named for found in index.search(query)][:3] == [True, True, False]


def test_a_word_in_a_name_counts_more_than_one_in_a_description():
    index = ToolIndex([tool("other", "Has to do with a ledger"), tool("open_ledger", "Opens it")])
    assert names(index, "ledger") == ["open_ledger", "other"]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("colour", "paint"),  # the name of an argument
        ("shade", "paint"),  # the description of an argument
        ("crimson", "paint"),  # a value that it may have
        ("Brush", "paint"),  # the title
        ("painting", "paint"),
        ("pain", "paint"),
        ("piant", "paint"),
        ("please paint something for me", "paint"),
    ],
)
def test_titles_arguments_endings_beginnings_and_misspellings_are_found(query, found):
    paint = tool("paint", "Cover a wall", title="Use the brush")
    paint.input_schema["properties"]["colour"] = {"description": "Its shade", "enum": ["crimson"]}
    assert names(ToolIndex([tool("sing", "Sing a song"), paint]), query)[:1] == [found]


def test_chinese_and_japanese_are_found_by_parts_of_a_sentence():
    index = ToolIndex(described())
    assert names(index, "会議室を予約したい")[0] == "会議室予約"
    assert names(index, "城市天气")[0] == "查询天气"
    assert names(index, "短")[0] == "发送短信"


@pytest.mark.parametrize("query", ["", "   ", "!?", "\x00", "\ud800", "zzzzqqqq", "a" * 100_000, "the of and"])
def test_any_text_is_a_query(query):
    assert len(ToolIndex(described()).search(query)) < 75


@pytest.mark.parametrize(
    "schema", [{}, {"properties": 1}, {"properties": {"a": 1}}, {"properties": {"a": {"enum": 3}}}]
)
def test_tools_with_strange_schemas_are_found_by_their_names(schema):
    strange = tool("strange", "Does something")
    strange.input_schema = schema
    assert names(ToolIndex([strange]), "strange") == ["strange"]


def test_without_tools_nothing_is_found():
    assert ToolIndex([]).search("anything") == []


def test_an_index_of_other_tools_uses_what_is_known_of_the_same_ones():
    first = ToolIndex(described())
    second = ToolIndex([*described()[:-1], tool("new_one", "Something new")], first)
    assert names(second, "something new")[0] == "new_one"
    assert names(second, "查询天气") == []
    assert second._documents["pdf_extract_text"] is first._documents["pdf_extract_text"]


def npm(package, *arguments):
    return [node_program(), str(node_modules() / "@modelcontextprotocol" / package / "dist" / "index.js"), *arguments]


@pytest.mark.slow
async def test_the_tool_that_is_meant_is_among_the_first_five_of_real_and_made_up_ones(tmp_path):
    commands = [npm("server-everything"), npm("server-filesystem", str(tmp_path)), npm("server-memory")]
    commands += [[python("1"), "-m", f"mcp_server_{name}"] for name in ("git", "time", "fetch")]

    async def tools_of(command):
        async with Client(command) as client:
            return await client.list_tools()

    real = [each for tools in await asyncio.gather(*map(tools_of, commands)) for each in tools]
    assert len(real) > 45
    index = ToolIndex([*real, *described()])
    ranks = {}
    for query, wanted in QUERIES.items():
        found = names(index, query)
        assert any(index.get(name) for name in wanted.split("|")), f"{wanted} has another name now"
        ranks[query] = min((found.index(name) for name in wanted.split("|") if name in found), default=len(index))
    missed = [query for query, rank in ranks.items() if rank >= 5]
    assert len(QUERIES) >= 40
    assert 1 - len(missed) / len(QUERIES) >= RECALL, missed
    assert sum(rank == 0 for rank in ranks.values()) / len(QUERIES) >= FIRST


def test_a_query_reads_a_small_part_of_the_index_of_a_thousand_tools():
    index = ToolIndex(many(1000))
    assert len(index) == 1000
    for query in QUERIES:
        index.search(query)
    assert index.scored / len(QUERIES) < 200  # terms of tools: about 14,000


@pytest.mark.slow
def test_a_query_takes_a_fraction_of_the_time_that_indexing_takes():
    started = time.process_time()
    index = ToolIndex(many(1000))
    indexing = time.process_time() - started
    times = []
    for query in QUERIES:
        started = time.process_time()
        index.search(query)
        times.append(time.process_time() - started)
    assert sorted(times)[len(times) // 2] < indexing / 10


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("hello world", 2), ("12345", 2), ('{"name":"x"}', 5), ("internationalization", 3), ("天气", 2)],
)
def test_tokens_are_estimated_by_words_digits_and_marks(text, tokens):
    assert estimate_tokens(text) == tokens


def test_the_tokens_of_tools_are_those_of_their_names_descriptions_and_schemas():
    tools = described()
    whole = sum(
        estimate_tokens(json.dumps([each.name, each.description, each.input_schema], ensure_ascii=False))
        for each in tools
    )
    assert 0.6 < tokens_of_tools(tools) / whole < 1.2
