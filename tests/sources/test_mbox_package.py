"""A source in a package of its own: one class and one entry point, served by the command like any other."""

import json
import mailbox
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path

import pytest

from carrel.cli import main
from carrel.testing import Caller, ProviderContract, running
from support.parties import python_program

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "examples" / "carrel-mbox"
READER = ROOT / "tests" / "interop" / "clients" / "python_sdk_2_reader.py"
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
#: Seconds that building and installing the package may take.
INSTALL_SECONDS = 900

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2 * INSTALL_SECONDS)]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the package into an environment that also has the packages of the tests, Carrel among them."""
    home = tmp_path_factory.mktemp("environment")
    venv.create(home)
    [packages] = home.glob("lib/python*/site-packages")
    ours = sysconfig.get_paths()["purelib"]
    (packages / "ours.pth").write_text(f"import site; site.addsitedir({ours!r})\n")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(home / "bin" / "python")]
    done = subprocess.run(
        [*pip, "install", "--quiet", "--no-compile", "--no-deps", "--no-build-isolation", str(PACKAGE)],
        capture_output=True,
        text=True,
        timeout=INSTALL_SECONDS,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return home


@pytest.fixture
def carrel(environment: Path) -> list[str]:
    """Return the ``carrel`` command of the environment. ``tests/release/test_build.py`` tests an installed Carrel."""
    return [str(environment / "bin" / "python"), "-m", "carrel"]


@pytest.fixture(scope="module")
def installed(environment: Path) -> Iterator[None]:
    """Let this process import the package as it is installed; everything else comes from the tests' environment."""
    [folder] = environment.glob("lib/python*/site-packages")
    sys.path.append(str(folder))
    yield
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


@pytest.mark.usefixtures("installed")
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


@pytest.mark.usefixtures("installed")
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


def serve(carrel: list[str], *arguments: str, questions: list[dict] = ()) -> subprocess.CompletedProcess:
    """Run ``carrel serve`` in the environment of the package, and send it requests on stdio."""
    lines = [
        {"jsonrpc": "2.0", "id": number, **question, "params": {**question["params"], "_meta": META}}
        for number, question in enumerate(questions)
    ]
    return subprocess.run(
        [*carrel, "serve", *arguments],
        input="".join(json.dumps(line) + "\n" for line in lines),
        capture_output=True,
        text=True,
        timeout=60,
        env={"COLUMNS": "100"},
    )


def test_the_command_serves_it_by_its_scheme(carrel: list[str], inbox: Path) -> None:
    listing = {"method": "resources/list", "params": {}}
    done = serve(carrel, f"mbox:{inbox}", "--max-mail=1KiB", questions=[listing])
    assert (done.returncode, done.stderr) == (0, "")
    [answer] = map(json.loads, done.stdout.splitlines())
    found = {resource["name"]: resource["uri"] for resource in answer["result"]["resources"]}
    assert found.keys() == {"Lamp", "Shelf three", "糖尿病", "Re: Lamp", "Minutes"}
    reading = {"method": "resources/read", "params": {"uri": found["Shelf three"]}}
    [answer] = map(json.loads, serve(carrel, f"mbox:{inbox}", questions=[reading]).stdout.splitlines())
    assert "About Shelf three." in answer["result"]["contents"][0]["text"]


def test_a_client_of_another_sdk_reads_its_mails(carrel: list[str], inbox: Path) -> None:
    done = subprocess.run(
        python_program("2", str(READER), *carrel, "serve", f"mbox:{inbox}"), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr[-4000:]
    mails = json.loads(done.stdout)
    assert mails.keys() == {"Lamp", "Shelf three", "糖尿病", "Re: Lamp", "Minutes"}
    assert "About 糖尿病." in mails["糖尿病"]


def test_the_help_lists_its_options(carrel: list[str]) -> None:
    text = serve(carrel, "--help").stdout
    assert "mbox: from the package carrel-mbox:\n" in text
    assert "--max-mail SIZE" in text
    assert "--poll NUMBER" in text


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["mbox:/nowhere/at/all"], "There is no mailbox /nowhere/at/all"),
        (["mbox:x", "--include=*.md"], "--include is an option of file:, but no target is of that kind"),
        (["mbox:x", "--max-mail=0"], "argument --max-mail: '0' is not a size such as 500KiB or 10MiB"),
        (["mbox:x", "--poll=0"], "mbox: Expected `float` > 0.0 for `poll`"),
        (
            ["imap://x"],
            "There is no source for imap: URLs; there are paths, and URLs that begin with file:, skills:, ",
        ),
    ],
)
@pytest.mark.usefixtures("installed")
def test_wrong_use_is_explained_in_one_line(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", *arguments]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"carrel: {complaint}")
    assert said.count("\n") == 1
