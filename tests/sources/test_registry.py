"""Finding the source of a path or a URL."""

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import msgspec
import pytest

from carrel import Server, sources
from carrel.catalog.provider import Provider
from carrel.cli.server.sharing import target_of
from carrel.errors import ConfigError
from carrel.sources.files.options import FilesOptions
from carrel.sources.files.source import FilesSource
from carrel.sources.registry import SOURCES, Source, installed
from carrel.sources.skills.options import SkillsOptions
from carrel.sources.skills.source import SkillsSource
from carrel.transports import memory
from support.git import Repository


@pytest.mark.parametrize("form", ["path", "string", "file://", "file:", "FILE://localhost"])
def test_a_path_and_a_file_url_name_a_folder(form: str, tmp_path: Path) -> None:
    folder = tmp_path / "a b"
    folder.mkdir()
    encoded = str(folder).replace(" ", "%20")
    target = {"path": folder, "string": str(folder), "file://": f"file://{encoded}", "file:": f"file:{encoded}"}
    source = sources.open(target.get(form, f"FILE://localhost{encoded}"))
    assert isinstance(source, FilesSource)
    assert isinstance(source, Provider)
    assert source.path == str(folder)


@pytest.mark.parametrize("target", ["a\0b", "file:///a\0b", "git:~\0", "sqlite:///a\0b", "nothing:\0"])
def test_a_target_with_a_nul_is_refused(target: str) -> None:
    for open in (sources.open, lambda target: target_of(target, {})):
        with pytest.raises(ConfigError, match="contains a NUL character"):
            open(target)


@pytest.mark.parametrize("target", ["./with:colon", "c:/notes", "c:", "1:2", "notes", "./x:y:z", "a b:c"])
def test_a_target_that_is_not_a_url_is_a_path(target: str) -> None:
    assert isinstance(sources.open(target), FilesSource)


def test_a_file_that_is_there_is_a_path_whatever_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "todo:today").touch()
    assert isinstance(sources.open("todo:today"), FilesSource)


@pytest.mark.parametrize("target", ["gopher://host/x", "nosuch:thing", "Hg+SSH://host/repo", "x-y.z+1:"])
def test_an_unknown_scheme_is_refused_with_a_hint(target: str) -> None:
    with pytest.raises(ConfigError, match=target.partition(":")[0].lower().replace("+", r"\+")) as raised:
        sources.open(target)
    assert "file:" in str(raised.value)
    assert f"./{target}" in str(raised.value)


@pytest.mark.parametrize("target", ["file://other-host/x", "file:relative", "file:///a%2fb", "file:///a?b"])
def test_a_file_url_that_names_no_path_here_is_refused(target: str) -> None:
    with pytest.raises(ConfigError):
        sources.open(target)


def test_options_are_given_by_name_or_as_their_struct(tmp_path: Path) -> None:
    (tmp_path / "a.md").touch()
    assert isinstance(sources.open(tmp_path, include=["*.md"], max_size=5), FilesSource)
    assert isinstance(sources.open(tmp_path, FilesOptions(include=("*.md",))), FilesSource)
    with pytest.raises(ConfigError, match="are a FilesOptions"):
        sources.open(tmp_path, SkillsOptions())


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"max_sise": 1}, "file: there is no option `max_sise`"),
        ({"max_size": 0}, r"file: Expected `int` >= 1 for `max_size`"),
        ({"max_size": "1"}, r"file: Expected `int`, got `str` for `max_size`"),
        ({"include": "*.md"}, r"file: Expected `array`, got `str` for `include`"),
        ({"hidden": 1}, r"file: Expected `bool`, got `int` for `hidden`"),
    ],
)
def test_an_option_that_is_wrong_is_named(options: dict[str, object], complaint: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=complaint):
        sources.open(tmp_path, **options)


def test_a_folder_of_skills_has_a_scheme(tmp_path: Path) -> None:
    source = sources.open(f"skills:{tmp_path}", hidden=True)
    assert isinstance(source, SkillsSource)
    assert repr(source) == f"SkillsSource({str(tmp_path)!r})"


@pytest.mark.parametrize("row", SOURCES.values(), ids=list(SOURCES))
def test_every_source_of_carrel_is_described_and_so_is_each_of_its_options(row: Source) -> None:
    assert row.summary
    assert row.install.startswith("pip install ")
    assert row.load().options is row.load_options()
    for field in msgspec.inspect.type_info(row.load_options()).fields:
        assert isinstance(field.type, msgspec.inspect.Metadata), field.name
        assert field.type.extra_json_schema["description"], field.name
        assert not field.required, field.name


def test_a_package_that_is_missing_is_named_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    row = Source("bucket", "objects in a bucket", "no_such_package.bucket:Bucket", "pip install 'carrel[bucket]'")
    monkeypatch.setitem(SOURCES, "bucket", row)
    with pytest.raises(
        ConfigError, match=r"bucket: URLs need the package no_such_package: pip install 'carrel\[bucket"
    ):
        sources.open("bucket://name")


def add_package(folder: Path, name: str, points: str, code: str | None = None) -> None:
    """Lay a package with entry points into a folder, as an installation would."""
    metadata = folder / f"{name}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[carrel.sources]\n{points}\n")
    if code is not None:
        (folder / f"{name}.py").write_text(code)


def test_an_installed_package_adds_a_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = """
from carrel.catalog.provider import Provider
class Clock(Provider):
    def __init__(self, url, options):
        self.url, self.chosen = url, options
"""
    add_package(tmp_path, "carrel_clock", "clock = carrel_clock:Clock", code)
    monkeypatch.syspath_prepend(tmp_path)
    assert installed()["clock"].summary == "from the package carrel_clock"
    provider = sources.open("clock:utc")
    assert isinstance(provider, Provider)
    assert vars(provider)["url"] == "clock:utc"
    with pytest.raises(ConfigError, match="clock: there is no option `zone`"):
        sources.open("clock:utc", zone="CET")
    with pytest.raises(ConfigError, match=", ".join(f"{scheme}:" for scheme in (*SOURCES, "clock"))):
        sources.open("clocks:utc")


@pytest.mark.parametrize(
    ("target", "complaint"),
    [
        ("carrel_gone:Gone", "gone: URLs need the package carrel_gone: pip install --upgrade carrel_gone"),
        ("json:Gone", "cannot be loaded from json:Gone"),
    ],
)
def test_an_entry_point_that_leads_nowhere_is_explained(
    target: str, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_package(tmp_path, "carrel_gone", f"gone = {target}")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=complaint):
        sources.open("gone:x")


def test_a_source_of_carrel_is_opened_without_a_look_at_the_installed_packages(tmp_path: Path) -> None:
    program = f"""
import sys
from carrel import Server, sources
sources.open({str(tmp_path)!r}, hidden=True)
assert "importlib.metadata" not in sys.modules
assert "carrel.sources.skills.source" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(("scheme", "option"), [("git", "repository"), ("openapi+file", "api_name"), ("zip", "alias")])
async def test_two_of_one_name_are_told_the_option_that_names_them(scheme: str, option: str, tmp_path: Path) -> None:
    app = Server("s")
    for name in ("one", "two"):
        folder = tmp_path / name / "same"
        if scheme == "git":
            Repository(folder)
        else:
            folder.parent.mkdir()
        if scheme == "zip":
            ZipFile(folder, "w").close()
        if scheme == "openapi+file":
            about = {
                "openapi": "3.1.0",
                "info": {"title": "A", "version": "1"},
                "servers": [{"url": "https://a.example"}],
            }
            folder.write_bytes(msgspec.json.encode({**about, "paths": {}}))
        app.add_provider(sources.open(f"{scheme}:{folder}"))
    with pytest.raises(ConfigError, match=f"There is a provider .* already: give each .* with the option {option},"):
        async with memory.connect(app):
            pass
