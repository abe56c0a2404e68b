"""``carrel doctor``: checks a server, and reports problems and how to fix them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from carrel.cli.client.connection import SERVER_ERROR, add_connection_options, answered, open_client, read_target, shown
from carrel.cli.client.info import transport_of
from carrel.cli.options import Parser
from carrel.cli.terminal.output import bold, wrapped, write_json, write_text
from carrel.cli.terminal.progress import Bar
from carrel.errors import ConfigError

if TYPE_CHECKING:
    from carrel.doctor.report import Report

__all__ = ["parser", "run"]

SUMMARY = "Examine a server: its responses, lists, errors and response times. Prints errors, advice and a score."
EXAMPLES = """\
examples:
  carrel doctor server.py
  carrel doctor http://127.0.0.1:8000/mcp --html report.html
  carrel doctor --hostile --call -- npx -y @modelcontextprotocol/server-everything

Without --call, only tools that are marked as read-only are called. Exit code 0: no errors and no warnings.
"""
COLOURS = {"error": "31", "warning": "33", "advice": "36"}


def parser() -> Parser:
    """Return the argument parser of ``carrel doctor``."""
    reader = Parser("doctor", SUMMARY, epilog=EXAMPLES)
    add_connection_options(reader)
    reader.add_argument("--call", action="store_true", help="call all tools, including tools that may change something")
    reader.add_argument("--hostile", action="store_true", help="send malformed messages and path traversals too")
    reader.add_argument("--html", metavar="FILE", help="write the report to an HTML file")
    reader.add_argument("--revision", metavar="DATE", help="the revision to speak (default: the newest of the server)")
    return reader


def run(arguments: list[str]) -> int:
    """Run ``carrel doctor`` and return the exit code: 0, 1 after an error or a warning, 3 without a connection.

    Raises:
        ConfigError: the arguments are invalid, or the page cannot be written.
    """
    options, target = read_target(parser(), arguments)

    async def show() -> int:
        from carrel.doctor.examination import examine
        from carrel.doctor.recorder import RecordedMessages
        from carrel.doctor.report import Report

        recording, report = RecordedMessages(), Report(target=target.name)

        bar = Bar.of(options)
        client = open_client(target, options, revision=options.revision, stderr=recording.errors.append)
        client.state.observe(lambda _: remember_transport())

        def remember_transport() -> None:
            if client.state.status == "connected":
                report.transport = transport_of(client)

        with bar:
            await examine(
                client,
                report,
                recording,
                hostile=options.hostile,
                call=options.call,
                timeout=min(options.timeout, 10.0),
                progress=lambda about: bar.update(f"checking {about}" if about != "connecting" else about),
            )
        if options.html is not None:
            save(report, options.html)
        if options.json:
            write_json(report)
        else:
            write_text(written(report), escape=False)
        return SERVER_ERROR if any(finding.severity != "advice" for finding in report.findings) else 0

    # Errors include the server's standard error, which has not been shown.
    return answered(show, quiet=True, name=target.name)


def save(report: Report, file: str) -> None:
    """Write the report as a page.

    Raises:
        ConfigError: the file cannot be written.
    """
    from carrel.doctor.page import page_of

    try:
        Path(file).write_text(page_of(report), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{file} cannot be written: {error.strerror}") from None


def written(report: Report) -> str:
    """Return the report for the terminal."""
    server = report.server or {}
    name = shown(f"{server.get('name', report.target)} {server.get('version', '')}".strip())
    times = ", ".join(f"{kind} {value:g} ms" for kind, value in report.timing.items())
    lines = [
        f"{bold(name)}  {report.revision}, {report.transport}",
        *wrapped(f"checked {', '.join(f'{count} {kind}' for kind, count in report.checks.items() if count)}"),
        times,
        *(line for note in report.notes for line in wrapped(shown(note))),
    ]
    for finding in report.findings:
        lines += ["", f"{coloured(finding.severity)}  {finding.title}"]
        lines += [f"    {shown(location)}" for location in finding.locations]
        more = finding.count - len(finding.locations)
        lines += [f"    and {more} more"] if more > 0 else []
        lines += [*wrapped(finding.advice, "  "), f"  {finding.specification}"]
    if not report.findings:
        lines += ["", "No problems found."]
    return "\n".join([*lines, "", bold(f"score {report.score} of 100")])


def coloured(severity: str) -> str:
    plain = bold(severity) == severity
    return severity if plain else f"\x1b[{COLOURS[severity]}m{severity}\x1b[0m"
