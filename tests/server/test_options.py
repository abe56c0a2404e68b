"""What authors may write for icons and annotations, and what travels."""

from __future__ import annotations

from typing import Any

import pytest

from carrel import Annotations, Icon
from carrel.errors import ConfigError
from carrel.server.options import annotations_of, icons_of, read_struct
from carrel.wire.tools import ToolAnnotations


def test_none_is_not_there() -> None:
    assert annotations_of(None) is None
    assert icons_of(None) is None
    assert icons_of([]) is None


@pytest.mark.parametrize(
    "value",
    [
        {"readOnlyHint": True, "title": "T"},
        {"read_only_hint": True, "title": "T"},
        ToolAnnotations(read_only_hint=True, title="T"),
    ],
)
def test_a_struct_or_a_dict_in_either_spelling_is_read(value: Any) -> None:
    assert read_struct(value, ToolAnnotations, "annotations") == ToolAnnotations(read_only_hint=True, title="T")


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"readOnly": True}, "unknown readOnly"),
        ({"readOnlyHint": 1}, "annotations"),
        ([], "must be ToolAnnotations or a dict, not list"),
        ("x", "not str"),
        (Annotations(), "not Annotations"),
        (ToolAnnotations(read_only_hint="yes"), "readOnlyHint"),  # type: ignore[arg-type]
        (ToolAnnotations(title=object()), "annotations"),  # type: ignore[arg-type]
    ],
)
def test_invalid_metadata_values_are_refused_in_words(value: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        read_struct(value, ToolAnnotations, "annotations")


@pytest.mark.parametrize("priority", [0, 0.0, 0.5, 1, 1.0])
def test_a_priority_runs_from_0_to_1(priority: float) -> None:
    assert annotations_of({"priority": priority}) == Annotations(priority=priority)


@pytest.mark.parametrize(
    "time",
    ["2025-01-12T15:00:58Z", "2025-01-12T15:00:58.123456+02:00", "2025-01-12", "2025-01-12T15:00", "20250112T150058Z"],
)
def test_a_time_is_iso_8601_and_kept_as_it_was_written(time: str) -> None:
    assert annotations_of(Annotations(last_modified=time)) == Annotations(last_modified=time)


@pytest.mark.parametrize("time", ["", "now", "12/01/2025", "2025-13-01", "2025-01-12T25:00:00Z", "1736694058"])
def test_other_times_are_refused(time: str) -> None:
    with pytest.raises(ConfigError, match="ISO 8601"):
        annotations_of({"lastModified": time})


def test_icons_may_be_text_dicts_or_structs() -> None:
    icon = {"src": "https://x/a.png", "mimeType": "image/png", "sizes": ["48x48"], "theme": "dark"}
    assert icons_of(["data:image/png;base64,AA==", icon, Icon("https://x/b.png")]) == [
        Icon("data:image/png;base64,AA=="),
        Icon("https://x/a.png", mime_type="image/png", sizes=["48x48"], theme="dark"),
        Icon("https://x/b.png"),
    ]


@pytest.mark.parametrize(
    "icon",
    [
        "javascript:alert(1)",
        "file:///x",
        "ftp://x",
        "ws://x",
        "HTTPS",
        "",
        "x.png",
        {"src": "app:icon"},
        {"theme": "dark"},
    ],
)
def test_icons_come_from_https_or_are_in_the_text(icon: Any) -> None:
    with pytest.raises(ConfigError, match="icon"):
        icons_of([icon])
