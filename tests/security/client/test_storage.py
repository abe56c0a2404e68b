"""Where tokens are kept."""

from __future__ import annotations

import asyncio
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.backends.fail import Keyring as NoKeyring
from keyring.errors import PasswordDeleteError, PasswordSetError

from carrel.errors import AuthorizationError, ConfigError
from carrel.security.client import FileStore, KeyringStore, MemoryStore, OAuth, TokenStore, UserStore
from carrel.security.client.file_store import default_directory
from support.authorization_server import Authority, visit

LONG = '{"access_token":"' + "é" * 9000 + '"}'


class Ring(KeyringBackend):  # type: ignore[misc]
    """A keyring that takes no longer texts than that of Windows."""

    priority = 5  # type: ignore[assignment]

    def __init__(self) -> None:
        self.entries: dict[tuple[str, str], str] = {}
        self.broken = False

    def get_password(self, service: str, username: str) -> str | None:
        return self.entries.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        if self.broken or len(password.encode("utf-16-le")) > 2560:
            raise PasswordSetError("too long, or locked")
        self.entries[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        try:
            del self.entries[service, username]
        except KeyError:
            raise PasswordDeleteError("there is none") from None


@pytest.fixture(params=["memory", "file", "keyring"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> TokenStore:
    return {
        "memory": MemoryStore,
        "file": lambda: FileStore(tmp_path / "a" / "b"),
        "keyring": lambda: KeyringStore(Ring()),
    }[request.param]()


async def test_texts_are_kept_replaced_and_forgotten(store: TokenStore):
    assert await store.get("a") is None
    await store.delete("a")
    for text in ("first", LONG, "", "last"):
        await store.put("a", text)
        await store.put("b", "other")
        assert await store.get("a") == text
    await store.delete("a")
    assert await store.get("a") is None
    assert await store.get("b") == "other"


@pytest.mark.parametrize("name", ["../../etc/passwd", "/x", "a/b", "\0", "é", "x" * 5000, '["https://a.example"]'])
async def test_any_text_can_be_a_name(store: TokenStore, name: str):
    await store.put(name, "text")
    assert await store.get(name) == "text"
    assert await store.get(name + "x") is None


async def test_texts_may_be_written_at_the_same_time(store: TokenStore):
    await asyncio.gather(*(store.put("a", str(number) * 100) for number in range(20)))
    text = await store.get("a")
    assert text is not None
    assert len(set(text.removeprefix("1"))) <= 2


async def test_files_are_for_their_user_only(tmp_path: Path):
    directory = tmp_path / "credentials"
    directory.mkdir(mode=0o755)
    store = FileStore(directory)
    await store.put("secret name", "secret text")
    [path] = directory.iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert "secret" not in path.name


async def test_a_file_that_was_tampered_with_is_not_used(tmp_path: Path):
    store = FileStore(tmp_path)
    await store.put("a", "text")
    await store.put("b", "other")
    first, second = sorted(tmp_path.iterdir())
    first.write_bytes(second.read_bytes())
    assert [await store.get("a"), await store.get("b")].count(None) == 1
    second.write_bytes(b"\xff{")
    assert [await store.get("a"), await store.get("b")] == [None, None]


async def test_a_place_that_cannot_be_written_to_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(AuthorizationError, match="Tokens cannot be stored in"):
        await FileStore(tmp_path / "file" / "x").put("a", "text")
    assert await FileStore(tmp_path / "file" / "x").get("a") is None


def test_files_are_in_the_configuration_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert default_directory() == tmp_path / "carrel" / "credentials"
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_directory() == tmp_path / ".config" / "carrel" / "credentials"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert default_directory() == tmp_path / "Library" / "Application Support" / "carrel" / "credentials"
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("APPDATA", str(tmp_path))
    assert default_directory() == tmp_path / "carrel" / "credentials"


async def test_all_parts_of_a_long_entry_are_removed_from_the_keyring():
    ring = Ring()
    store = KeyringStore(ring)
    await store.put("a", LONG)
    await store.put("a", "short")
    assert len(ring.entries) == 2
    await store.delete("a")
    assert ring.entries == {}


@pytest.fixture
def ring(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Ring:
    """A keyring that is that of this machine; files would be in a directory of the test."""
    one = Ring()
    monkeypatch.setattr(keyring.core, "_keyring_backend", one)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return one


async def test_tokens_go_to_the_keyring_of_the_machine(authority: Authority, ring: Ring, tmp_path: Path):
    for _ in range(2):
        who = OAuth(authorize=authority.browse)
        assert await visit(who, authority.resource) == 200
        await who.close()
    assert len(authority.requests()) == 1
    assert {service for service, _ in ring.entries} == {"carrel"}
    assert any(authority.url in name for _, name in ring.entries)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("trouble", ["none", "locked"])
async def test_without_a_keyring_tokens_go_to_files(
    authority: Authority, ring: Ring, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: str
):
    if trouble == "none":
        monkeypatch.setattr(keyring.core, "_keyring_backend", NoKeyring())
    ring.broken = True
    who = OAuth(authorize=authority.browse)
    assert await visit(who, authority.resource) == 200
    await who.close()
    assert len(list((tmp_path / "carrel" / "credentials").iterdir())) == 3
    again: Any = UserStore()
    again._store = FileStore()
    other = OAuth(authorize=authority.browse, store=again)
    assert await visit(other, authority.resource) == 200
    await other.close()
    assert len(authority.requests()) == 1


def test_a_keyring_whose_package_is_missing_is_named_with_what_brings_it():
    code = (
        "import sys; sys.modules['keyring'] = None\n"
        "from carrel.security.client import KeyringStore\n"
        "from carrel.errors import ConfigError\n"
        "assert not KeyringStore.available()\n"
        "try:\n    KeyringStore()\nexcept ConfigError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "the keyring needs the package keyring: pip install 'carrel[keyring]'\n"
    assert issubclass(ConfigError, Exception)


def test_nothing_heavy_is_loaded_before_it_is_needed():
    code = "import sys, carrel.security.client; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert not {"aiohttp", "joserfc", "cryptography", "keyring", "http"} & set(done.stdout.split())
