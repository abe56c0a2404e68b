"""Descriptions of tools as servers for work with code, messages, calendars, shops and machines have them."""

from __future__ import annotations

from carrel.wire.tools import Tool, ToolAnnotations

__all__ = ["DESCRIBED", "many", "tool"]

#: Names of tools, their descriptions, and the names of their arguments; those with "?" are optional.
DESCRIBED = """
github_create_issue | Open a new issue in a repository | owner repo title body? labels?
github_list_issues | List the issues of a repository, filtered by state and label | owner repo state? labels?
github_close_issue | Close an issue of a repository | owner repo number
github_add_issue_comment | Add a comment to an issue or a pull request | owner repo number body
github_create_pull_request | Open a pull request from one branch into another | owner repo head base title
github_merge_pull_request | Merge a pull request that has been approved | owner repo number method?
github_list_pull_requests | List the pull requests of a repository | owner repo state?
github_request_review | Ask users to review a pull request | owner repo number reviewers
github_search_code | Search code in all repositories by text and language | query language?
github_fork_repository | Fork a repository into your account | owner repo
github_star_repository | Star a repository | owner repo
github_list_workflow_runs | List the runs of a continuous integration workflow with their results | owner repo workflow
github_rerun_workflow | Run a failed workflow again | owner repo run
slack_post_message | Post a message to a channel | channel text
slack_reply_to_thread | Reply in a thread of a channel | channel thread text
slack_list_channels | List the public channels of the workspace | cursor?
slack_add_reaction | React to a message with an emoji | channel timestamp emoji
slack_get_user_profile | Return name, mail address and time zone of a user | user
slack_upload_file | Share a file in a channel | channel path
calendar_create_event | Put an appointment with guests into the calendar | title start end guests?
calendar_list_events | List the appointments between two times | start end
calendar_delete_event | Cancel an appointment and tell its guests | event
calendar_find_free_time | Find times at which all guests are free for a meeting | guests duration
mail_send_message | Send an email with attachments | to subject body attachments?
mail_search_messages | Search the mailbox by sender, subject and date | query
mail_create_draft | Save an email without sending it | to subject body
mail_mark_as_read | Mark messages of the inbox as read | messages
postgres_run_query | Run a read-only SQL query on the database | sql
postgres_list_tables | List the tables of a database schema | schema
postgres_describe_table | Show the columns, types and indexes of a table | table
postgres_explain_query | Show the plan of a query with its costs | sql
browser_navigate | Go to a web page in the browser | url
browser_click | Click on an element of the page | selector
browser_take_screenshot | Take a picture of the page or of an element | selector?
browser_fill_form | Type values into the fields of a form | fields
weather_get_forecast | Return the weather forecast for the next days at a place | latitude longitude days?
weather_get_alerts | Return warnings about storms and floods in a region | region
maps_get_directions | Find the way from one place to another by car, train or on foot | from to mode
maps_search_places | Find restaurants, shops and sights near a place | query location radius?
maps_geocode | Turn a postal address into coordinates | address
shop_search_products | Find products by name, price and category | query category? max_price?
shop_create_order | Buy the products in a basket | basket address
shop_refund_order | Pay back the price of an order | order reason
shop_track_shipment | Tell where a parcel is and when it arrives | shipment
shop_update_stock | Set how many pieces of a product are in stock | product count
k8s_list_pods | List the pods of a cluster with their states | namespace
k8s_get_pod_logs | Print the log of a container in a pod | pod container?
k8s_scale_deployment | Change the number of replicas of a deployment | deployment replicas
k8s_restart_deployment | Restart all pods of a deployment one after the other | deployment
aws_s3_upload_object | Upload a file to a storage bucket | bucket key path
aws_s3_list_buckets | List the storage buckets of the account | region?
aws_lambda_invoke | Invoke a serverless function with a payload | function payload
jiraCreateTicket | Create a ticket in a project with type and priority | project summary type priority?
jiraTransitionTicket | Move a ticket to another status such as done | ticket status
jiraAssignTicket | Give a ticket to a person | ticket assignee
notion-create-page | Create a page below another one | parent title content
notion-query-database | Return the rows of a database that match a filter | database filter
linear-create-project | Create a project with milestones | name milestones?
sentry_list_errors | List exceptions of an application by how often they happen | project
sentry_resolve_error | Mark an exception as resolved | error
stripe_create_invoice | Write an invoice for a customer | customer items
stripe_list_payments | List the payments of a customer | customer
spotify_play_track | Play a song on a device | track device?
spotify_create_playlist | Make a playlist of songs | name tracks
translate_text | Translate text into another language | text target
image_resize | Change width and height of a picture | path width height
pdf_extract_text | Extract the text of a PDF document | path pages?
audio_transcribe | Write down what is said in a recording | path language?
文書検索 | 社内の文書を全文検索する | 検索語
会議室予約 | 会議室を日時で予約する | 会議室 開始 終了
发送短信 | 向手机号码发送短信 | 号码 内容
查询天气 | 查询城市的天气预报 | 城市
"""


def tool(name: str, description: str, arguments: str = "", **details: object) -> Tool:
    """Return a tool by its name, its description, and the names of its arguments."""
    names = arguments.split()
    return Tool(
        name=name,
        description=description,
        input_schema={
            "type": "object",
            "properties": {each.rstrip("?"): {"type": "string"} for each in names},
            "required": [each for each in names if not each.endswith("?")],
        },
        **details,  # type: ignore[arg-type]
    )


def described() -> list[Tool]:
    """Return the tools of ``DESCRIBED``."""
    rows = [line.split(" | ") for line in DESCRIBED.strip().splitlines()]
    return [tool(*row) for row in rows]


def many(count: int) -> list[Tool]:
    """Return so many tools: those of ``DESCRIBED``, for one tenant after the other."""
    tools = described()
    return [
        tool(
            f"t{at // len(tools)}_{each.name}",
            f"{each.description} (tenant {at // len(tools)})",
            "id",
            annotations=READS,
        )
        for at in range(count)
        for each in [tools[at % len(tools)]]
    ]


READS = ToolAnnotations(read_only_hint=True)
