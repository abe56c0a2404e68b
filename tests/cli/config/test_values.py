"""Values of settings: references, conversion, and what is hidden."""

import os
import sys
import types

import pytest

from carrel.cli.config.settings import fields
from carrel.cli.config.values import convert, mask, resolve, shown
from carrel.errors import ConfigError
from carrel.redaction import without_secrets
from carrel.references import MAX_FILE


def test_references_are_resolved_in_texts_lists_and_tables(tmp_path, monkeypatch):
    monkeypatch.setenv("WHO", "alice")
    monkeypatch.delenv("NOBODY", raising=False)
    (tmp_path / "secret").write_text("hunter2\n")
    value = {"a": ["x-${env:WHO}", 1], "b": "${env:NOBODY:-bob}", "c": "${file:secret}", "d": "$${env:WHO}"}
    found = resolve(value, str(tmp_path))
    assert found.value == {"a": ["x-alice", 1], "b": "bob", "c": "hunter2", "d": "${env:WHO}"}
    assert found.references == ("${env:WHO}", "${env:NOBODY:-bob}", "${file:secret}")
    assert found.is_secret
    assert not resolve("${env:WHO}", "").is_secret


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("${env:NO_SUCH_VARIABLE}", "the environment variable NO_SUCH_VARIABLE is not set"),
        ("${env:CARREL_TEST_WHOM}", "did you mean 'CARREL_TEST_WHO'?"),
        ("${file:nowhere}", "${file:nowhere} cannot be read: No such file or directory"),
        ("${keyring:carrel}", "write ${keyring:SERVICE/NAME}"),
        ("${vault:x}", "${vault:x} is no reference: there are ${env:…}, ${file:…} and ${keyring:…}"),
        ("imap://alice:hunter2@example.org", "a password does not belong in the file: write ${env:NAME}"),
        ("imap://alice:${env:WHO:-hunter2}@example.org", "a secret has no default"),
    ],
)
def test_a_reference_that_leads_nowhere_is_explained(text, complaint, monkeypatch):
    monkeypatch.setenv("CARREL_TEST_WHO", "x")
    with pytest.raises(ConfigError) as caught:
        resolve(text, "")
    assert complaint in str(caught.value)
    assert "hunter2" not in str(caught.value) or ":-" in text


def test_a_file_that_is_too_long_for_a_value_is_not_read_to_its_end(tmp_path):
    (tmp_path / "long").write_bytes(b"x" * (MAX_FILE + 1))
    with pytest.raises(ConfigError, match=r"\$\{file:long\} has more than 1048576 bytes"):
        resolve("${file:long}", str(tmp_path))
    (tmp_path / "long").write_bytes(b"x" * MAX_FILE)
    assert len(resolve("${file:long}", str(tmp_path)).value) == MAX_FILE


def test_what_is_not_a_regular_file_is_no_value_and_does_not_block(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "/dev/zero", "."):
        with pytest.raises(ConfigError, match=f"file:{name}.* cannot be read: it is a "):
            resolve(f"${{file:{name}}}", str(tmp_path))


def test_a_secret_is_a_reference_without_a_default(monkeypatch):
    monkeypatch.setenv("SECRET", "hunter2")
    assert resolve("${env:SECRET}", "", secret=True).value == "hunter2"
    with pytest.raises(ConfigError, match="a secret does not belong in the file") as caught:
        resolve("hunter2", "", secret=True)
    assert "hunter2" not in str(caught.value)
    with pytest.raises(ConfigError, match="a secret has no default"):
        resolve("${env:SECRET:-hunter2}", "", secret=True)


def test_the_keyring_is_asked_for_a_service_and_a_name(monkeypatch):
    module = types.ModuleType("keyring")
    module.get_password = lambda service, name: {("a/b", "c"): "hunter2"}.get((service, name))
    errors = types.ModuleType("keyring.errors")
    errors.KeyringError = type("KeyringError", (Exception,), {})
    monkeypatch.setitem(sys.modules, "keyring", module)
    monkeypatch.setitem(sys.modules, "keyring.errors", errors)
    assert resolve("${keyring:a/b/c}", "").value == "hunter2"
    with pytest.raises(ConfigError, match="no such entry; keyring set x y adds it"):
        resolve("${keyring:x/y}", "")
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(ConfigError, match=r"pip install 'carrel\[keyring\]'"):
        resolve("${keyring:x/y}", "")


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("http.port", "8000", 8000),
        ("http.sse", "true", True),
        ("http.sse", "0", False),
        ("http.keep_alive", "2.5", 2.5),
        ("http.allowed_hosts", "a.example, b.example", ("a.example", "b.example")),
        ("http.allowed_hosts", "", ()),
        ("limits.max_message_bytes", "1MiB", 1024 * 1024),
        ("limits.max_sessions", "5", 5),
        ("auth.issuer", "https://a.example", "https://a.example"),
        ("auth.scopes", '{"*": "read"}', {"*": "read"}),
        ("logging.level", "error", "error"),
    ],
)
def test_text_of_the_environment_becomes_what_the_setting_is(path, text, expected):
    assert convert(fields()[path], text, from_text=True) == expected


@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        ("http.port", "8000", "expected a whole number, got text"),
        ("http.port", 70000, "expected a whole number <= 65535"),
        ("http.sse", 1, "expected true or false, got a whole number"),
        ("http.allowed_hosts", "x", "expected a list, got text"),
        ("logging.level", "warn", "'warn' is not one of debug, info, warning, error; did you mean 'warning'?"),
        ("limits.max_kept_bytes", "much", "'much' is not a size such as 500KiB or 10MiB"),
        ("limits.max_tasks", 0, "The limit max_tasks must be a number above 0, not 0"),
    ],
)
def test_a_value_of_another_type_is_explained(path, value, complaint):
    with pytest.raises(ConfigError) as caught:
        convert(fields()[path], value, from_text=False)
    assert complaint in str(caught.value)


def test_secrets_and_passwords_are_hidden():
    secret, plain = fields()["auth.introspection.client_secret"], fields()["auth.issuer"]
    assert mask(secret, "hunter2", secret=False) == "********"
    assert mask(plain, "hunter2", secret=True) == "********"
    assert mask(plain, ["https://a:hunter2@b/"], secret=False) == ["https://a:********@b/"]
    assert without_secrets("imap://u:a/b@c@host/x") == "imap://u:********@host/x"
    assert shown({"*": ["a", 1, True]}) == '{ "*" = ["a", 1, true] }'
