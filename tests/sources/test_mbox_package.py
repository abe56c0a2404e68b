"""A source in a package of its own: one class and one entry point, served by the command like any other."""

import json
import mailbox
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path

import pytest

from carrel.testing import Caller, ProviderContract, running

PACKAGE = Path(__file__).parents[2] / "examples" / "carrel-mbox"
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}


@pytest.fixture(scope="module", autouse=True)
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Install the package into a folder on the path: its module, and the metadata that a build would write."""
    folder = tmp_path_factory.mktemp("site")
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    (folder / "carrel_mbox.py").write_text((PACKAGE / "carrel_mbox.py").read_text())
    metadata = folder / f"carrel_mbox-{project['version']}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    lines = [
        line
        for group, points in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {target}" for name, target in points.items()))
    ]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))
    sys.modules.pop("carrel_mbox", None)


def add_mail(path: Path, subject: str, text: str = "Hello\n", number: int = 0) -> None:
    message = EmailMessage()
    message["From"], message["To"] = "Ana <ana@example.org>", "Bo <bo@example.org>"
    message["Subject"], message["Message-ID"] = subject, f"<{subject.encode().hex()}.{number}@example.org>"
    message["Date"] = "Mon, 03 Nov 2025 10:00:00 +0100"
    message.set_content(text)
    box = mailbox.mbox(path)
    box.add(message)
    box.close()


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    path = tmp_path / "in box"
    for number, subject in enumerate(("Lamp", "Shelf three", "糖尿病", "Re: Lamp", "Minutes")):
        add_mail(path, subject, f"About {subject}.\n", number)
    return path


class TestMailbox(ProviderContract):
    """The source, held to the contract of every provider."""

    path: Path

    @pytest.fixture
    def provider(self, inbox: Path):
        self.path = inbox
        add_mail(inbox, "Large", "x" * 20_000)
        return self.again(None)

    def again(self, provider):
        from carrel_mbox import MailboxOptions, MailboxSource

        return MailboxSource(f"mbox:{self.path}", MailboxOptions(max_mail=10_000, poll=0.01))

    async def create(self, provider):
        before = {resource.uri for resource in await Caller(provider).resources()}
        add_mail(self.path, "New", number=len(before))
        [uri] = {resource.uri for resource in await Caller(provider).resources()} - before
        return uri

    async def remove(self, provider, uri):
        key = provider._mails[uri].key
        box = mailbox.mbox(self.path)
        box.remove(key)
        box.close()

    reports = ("created", "removed")

    def missing(self, provider):
        return f"{provider.name}/0000000000000000"

    async def readable(self, provider):
        return [resource for resource in await self.listed(provider, "resources") if resource.name != "Large"]

    async def searched(self, provider):
        [uri] = [resource.uri for resource in await Caller(provider).resources() if resource.name == "Lamp"]
        return "lamp", uri


async def test_a_mail_is_text_with_the_headers_that_matter(inbox: Path) -> None:
    from carrel import sources

    async with running(sources.open(f"mbox:{inbox}")) as provider:
        [resource] = [resource for resource in await Caller(provider).resources() if resource.name == "糖尿病"]
        assert resource.annotations.last_modified == "2025-11-03T09:00:00Z"
        [contents] = await Caller(provider).read_resource(resource.uri)
    assert contents.text.splitlines() == [
        "From: Ana <ana@example.org>",
        "To: Bo <bo@example.org>",
        "Date: Mon, 03 Nov 2025 10:00:00 +0100",
        "Subject: 糖尿病",
        "",
        "About 糖尿病.",
    ]


def serve(installed: Path, *arguments: str, questions: list[dict] = ()) -> subprocess.CompletedProcess:
    """Run ``carrel serve`` with the package installed, and send it requests on stdio."""
    lines = [
        {"jsonrpc": "2.0", "id": number, **question, "params": {**question["params"], "_meta": META}}
        for number, question in enumerate(questions)
    ]
    return subprocess.run(
        [sys.executable, "-m", "carrel", "serve", *arguments],
        input="".join(json.dumps(line) + "\n" for line in lines),
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(installed), "COLUMNS": "100"},
    )


def test_the_command_serves_it_by_its_scheme(installed: Path, inbox: Path) -> None:
    listing = {"method": "resources/list", "params": {}}
    done = serve(installed, f"mbox:{inbox}", "--max-mail=1KiB", questions=[listing])
    assert (done.returncode, done.stderr) == (0, "")
    [answer] = map(json.loads, done.stdout.splitlines())
    found = {resource["name"]: resource["uri"] for resource in answer["result"]["resources"]}
    assert found.keys() == {"Lamp", "Shelf three", "糖尿病", "Re: Lamp", "Minutes"}
    reading = {"method": "resources/read", "params": {"uri": found["Shelf three"]}}
    [answer] = map(json.loads, serve(installed, f"mbox:{inbox}", questions=[reading]).stdout.splitlines())
    assert "About Shelf three." in answer["result"]["contents"][0]["text"]


def test_the_help_lists_its_options(installed: Path) -> None:
    text = serve(installed, "--help").stdout
    assert "mbox: from the package carrel-mbox:\n" in text
    assert "--max-mail SIZE" in text
    assert "--poll NUMBER" in text


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["mbox:/nowhere/at/all"], "There is no mailbox /nowhere/at/all"),
        (["mbox:x", "--include=*.md"], "--include is an option of file:, and nothing of that kind is shared"),
        (["mbox:x", "--max-mail=0"], "argument --max-mail: '0' is not a size such as 500KiB or 10MiB"),
        (["mbox:x", "--poll=0"], "mbox: Expected `float` > 0.0 for `poll`"),
        (
            ["imap://x"],
            "There is no source for imap: URLs; there are paths, and URLs that begin with file:, skills:, mbox:",
        ),
    ],
)
def test_wrong_use_is_explained_in_one_line(installed: Path, arguments: list[str], complaint: str) -> None:
    done = serve(installed, *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(f"carrel: {complaint}")
    assert done.stderr.count("\n") == 1
