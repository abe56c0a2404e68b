"""Settings in force: file, environment and flags, their order, and errors with their places."""

from argparse import Namespace

import pytest

from carrel import Limits
from carrel.cli.config.read import FLAGS, read_configuration
from carrel.cli.config.settings import SECTIONS, fields
from carrel.cli.config.toml import read_file
from carrel.cli.server import dev, run, serve
from carrel.cli.server.sharing import read_targets
from carrel.cli.source_flags import SourceFlags
from carrel.errors import ConfigError
from carrel.sources.registry import SOURCES

NOTHING = Namespace(targets=[], skills=[])


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(text, name="carrel.toml"):
    with open(name, "w", encoding="utf-8") as file:
        file.write(text)


def configured(*arguments):
    options = serve.parser().parse_args(arguments)
    return read_configuration(options, targeted=bool(options.targets or options.skills))


def problems(text):
    write(text)
    return read_file("carrel.toml").problems


def test_defaults_are_those_of_the_structs():
    found = configured("x")
    assert (found.settings.http.port, found.settings.limits, found.origins) == (None, Limits(), {})


def test_a_flag_wins_over_the_environment_and_that_over_the_file(monkeypatch):
    write("[http]\nport = 1\nhost = '::1'\npath = '/a'\n[server]\ntools = false\n[logging]\nlevel = 'info'\n")
    monkeypatch.setenv("CARREL_HTTP_PORT", "2")
    monkeypatch.setenv("CARREL_HTTP_PATH", "/b")
    monkeypatch.setenv("CARREL_LIMITS_MAX_MESSAGE_BYTES", "1MiB")
    found = configured("--http", "3", "--limit", "max_tasks=4")
    assert (found.settings.http.host, found.settings.http.port, found.settings.http.path) == ("::1", 3, "/b")
    assert found.settings.limits == Limits(max_message_bytes=1024 * 1024, max_tasks=4)
    assert {path: origin.text for path, origin in found.origins.items()} == {
        "http.port": "--http",
        "http.host": "carrel.toml:3",
        "http.path": "environment CARREL_HTTP_PATH",
        "server.tools": "carrel.toml:6",
        "logging.level": "carrel.toml:8",
        "limits.max_message_bytes": "environment CARREL_LIMITS_MAX_MESSAGE_BYTES",
        "limits.max_tasks": "--limit",
    }
    assert found.given("limits") == {"max_message_bytes": 1024 * 1024, "max_tasks": 4}
    assert configured("--stdio").settings.http.port is None


def test_every_setting_has_a_variable_of_its_own():
    variables = [field.variable for field in fields().values()]
    assert len(set(variables)) == len(variables)
    assert fields()["auth.introspection.client_secret"].variable == "CARREL_AUTH_INTROSPECTION_CLIENT_SECRET"


def test_everything_that_the_command_line_says_is_a_setting():
    special = {"help", "targets", "target", "config", "skills", "http", "stdio", "limit", "compat", "raw", "module"}
    special |= {"studio", "open"}
    for parser in (serve.parser(), run.parser(), dev.parser()):
        options = {action.dest for action in parser._actions if not action.dest.startswith("--")}
        assert options - special <= set(FLAGS)
    assert set(FLAGS.values()) <= set(fields())


def test_the_file_is_found_only_where_nothing_else_is_named(capsys, folder):
    write("[server]\nname = 'x'\n")
    assert configured("docs").file is None
    assert configured("--skills", "s").file is None
    assert capsys.readouterr().err == ""
    assert configured().settings.server.name == "x"
    assert capsys.readouterr().err == f"carrel: using {folder / 'carrel.toml'}\n"
    write("[server]\nname = 'y'\n", "other.toml")
    assert configured("docs", "--config", "other.toml").settings.server.name == "y"
    assert capsys.readouterr().err == ""


def test_paths_are_relative_to_the_file(folder):
    (folder / "a" / "docs").mkdir(parents=True)
    (folder / "a" / "sk:ills").mkdir()
    (folder / "a" / "more").mkdir()
    write(
        "[auth]\ntokens = 'tokens.txt'\n[skills]\nfolders = ['more']\n"
        "[[sources]]\npath = 'docs'\ninclude = ['*.md']\nmax_size = '20MiB'\n"
        "[[sources]]\nurl = 'skills:sk:ills'\nhidden = true\n",
        "a/carrel.toml",
    )
    found = configured("--config", "a/carrel.toml")
    assert found.settings.auth.tokens == str(folder / "a" / "tokens.txt")
    assert [target[:3] for target in read_targets(NOTHING, SourceFlags([]), found)] == [
        ("file", str(folder / "a" / "docs"), {"include": ("*.md",), "max_size": 20 * 1024 * 1024}),
        ("skills", str(folder / "a" / "sk:ills"), {"hidden": True}),
        ("skills", str(folder / "a" / "more"), {}),
    ]


def test_flags_of_sources_win_over_the_options_of_the_file(folder):
    (folder / "docs").mkdir()
    write("[[sources]]\npath = 'docs'\ninclude = ['*.md']\nthreads = 2\n")
    parser = serve.parser()
    options = parser.parse_args(["--include", "*.txt", "--hidden"])
    [target] = read_targets(options, parser.flags, read_configuration(options, targeted=False))
    assert target.options == {"include": ["*.txt"], "hidden": True, "threads": 2}


def test_every_option_of_a_source_is_a_key():
    for scheme, flags in SourceFlags().by_scheme.items():
        for flag in flags:
            [problem] = problems(f'[[sources]]\nurl = "{scheme}:///x"\n{flag.name} = {{}}\n')
            assert problem.startswith(f"carrel.toml:3:1: [[sources]] {flag.name}: expected ")


BAD = """\
name = "x"
[htpp]
[http]
prot = 1
  port = "x"
[logging]
level = "warn"
[limits]
max_sessions = 0
max_kept_bytes = "5XB"
[auth]
introspection = { client_id = "${env:NO_SUCH_VARIABLE}", client_secret = "hunter2" }
[[sources]]
url = "imap://u:hunter2@h"
[[sources]]
url = "imap://h"
[[sources]]
[[sources]]
path = "docs"
includ = []
threads = 0
include = ["["]
"""


def test_everything_that_is_wrong_has_its_line_its_column_and_the_near_word():
    schemes = ", ".join(f"{scheme}:" for scheme in SOURCES)
    found = problems(BAD)
    secret = "does not belong in the file: write ${env:NAME}, ${file:PATH} or ${keyring:SERVICE/NAME}"
    assert found == [
        "carrel.toml:1:1: name: this setting belongs into [server]",
        "carrel.toml:2:1: htpp: there is no such section; did you mean 'http'?",
        "carrel.toml:4:1: [http] prot: there is no such setting; did you mean 'port'?",
        "carrel.toml:5:3: [http] port: expected a whole number, got text",
        "carrel.toml:7:1: [logging] level: 'warn' is not one of debug, info, warning, error; did you mean 'warning'?",
        "carrel.toml:9:1: [limits] max_sessions: The limit max_sessions must be a number above 0, not 0",
        "carrel.toml:10:1: [limits] max_kept_bytes: '5XB' is not a size such as 500KiB or 10MiB",
        "carrel.toml:12:19: [auth.introspection] client_id: the environment variable NO_SUCH_VARIABLE is not set",
        f"carrel.toml:12:58: [auth.introspection] client_secret: a secret {secret}",
        f"carrel.toml:14:1: [[sources]] url: a password {secret}",
        f"carrel.toml:16:1: [[sources]] url: there is no source for imap: URLs; there are {schemes}",
        'carrel.toml:17:1: [[sources]] needs either a path or a url, for example path = "./docs"',
        "carrel.toml:20:1: [[sources]] includ: file: has no such option; did you mean 'include'?",
        "carrel.toml:21:1: [[sources]] threads: expected a whole number >= 1",
        "carrel.toml:22:1: [[sources]] include: '[' has a bracket that is not closed",
    ]
    with pytest.raises(ConfigError, match=r"^carrel\.toml:1:1: name: .* \(and 14 more: carrel config check\)$"):
        configured()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[http]\nport = ", "carrel.toml:2:8: this is not TOML: Invalid value"),
        ("http = 1", "carrel.toml:1:1: http is a section: write [http]"),
        ("sources = 1", "carrel.toml:1:1: sources are tables: write [[sources]] before each"),
        ("[auth]\ntokens = 't'\nissuer = 'https://a'", "carrel.toml:3: [auth] has tokens or an issuer, not both"),
        ("[auth]\nresource = 'https://a'", "carrel.toml:2: [auth] resource needs an issuer"),
        ("[auth.introspection]\nclient_id = 'x'", "carrel.toml:2: [auth.introspection] needs client_secret"),
        ("[app]\nfile = 's.py'\n[server]\nname = 'x'", "carrel.toml:4: [server] is for carrel serve"),
    ],
)
def test_what_cannot_be_is_named_with_its_line(text, complaint):
    write(text)
    with pytest.raises(ConfigError) as caught:
        configured()
    assert str(caught.value).startswith(complaint)


def test_a_file_that_cannot_be_read_is_named():
    with pytest.raises(ConfigError, match=r"^x\.toml cannot be read: No such file"):
        configured("--config", "x.toml")
    with open("y.toml", "wb") as file:
        file.write(b"\xff")
    with pytest.raises(ConfigError, match=r"^y\.toml is not UTF-8 text"):
        configured("--config", "y.toml")


def test_wrong_variables_are_named(monkeypatch, capsys):
    monkeypatch.setenv("CARREL_HTTP_PROT", "1")
    configured("x")
    assert capsys.readouterr().err == (
        "carrel: CARREL_HTTP_PROT: there is no such setting; did you mean 'CARREL_HTTP_PORT'?\n"
    )
    monkeypatch.setenv("CARREL_HTTP_PORT", "tcp://10.0.0.1:80")
    with pytest.raises(ConfigError, match="CARREL_HTTP_PORT: expected a whole number, got text"):
        configured("x")


def test_the_sections_are_those_of_the_settings():
    names = {path.partition(".")[0] for path in SECTIONS}
    assert names == set(read_configuration(Namespace(), targeted=True).settings.__struct_fields__)
