"""Finding the source of a path or a URL."""

from pathlib import Path

import pytest
from carrel.server.source import Source

from carrel import sources
from carrel.errors import ConfigError
from carrel.sources.files.source import FilesSource


@pytest.mark.parametrize("form", ["path", "string", "file://", "file:", "FILE://localhost"])
def test_a_path_and_a_file_url_name_a_folder(form: str, tmp_path: Path) -> None:
    folder = tmp_path / "a b"
    folder.mkdir()
    encoded = str(folder).replace(" ", "%20")
    target = {"path": folder, "string": str(folder), "file://": f"file://{encoded}", "file:": f"file:{encoded}"}
    source = sources.open(target.get(form, f"FILE://localhost{encoded}"))
    assert isinstance(source, FilesSource)
    assert isinstance(source, Source)
    assert source.path == str(folder)


@pytest.mark.parametrize("target", ["./with:colon", "c:/notes", "c:", "1:2", "notes", "./x:y:z", "a b:c"])
def test_what_is_no_url_is_a_path(target: str) -> None:
    assert isinstance(sources.open(target), FilesSource)


def test_a_file_that_is_there_is_a_path_whatever_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "todo:today").touch()
    assert isinstance(sources.open("todo:today"), FilesSource)


@pytest.mark.parametrize("target", ["gopher://host/x", "nosuch:thing", "Git+SSH://host/repo", "x-y.z+1:"])
def test_an_unknown_scheme_is_refused_with_a_hint(target: str) -> None:
    with pytest.raises(ConfigError, match=target.partition(":")[0].lower().replace("+", r"\+")) as raised:
        sources.open(target)
    assert "file:" in str(raised.value)
    assert f"./{target}" in str(raised.value)


@pytest.mark.parametrize("target", ["file://other-host/x", "file:relative", "file:///a%2fb", "file:///a?b"])
def test_a_file_url_that_names_no_path_here_is_refused(target: str) -> None:
    with pytest.raises(ConfigError):
        sources.open(target)


def test_the_schemes_are_known() -> None:
    assert "file" in sources.schemes()
