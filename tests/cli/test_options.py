"""The options that say what is shared."""

import os
from argparse import ArgumentTypeError

import pytest

from carrel import Limits
from carrel.cli.options import (
    Parser,
    add_sharing_options,
    add_source_flags,
    as_arguments,
    read_limit,
)
from carrel.cli.server.sharing import check_paths, check_skills, default_name
from carrel.cli.values import seconds, shown_size, size
from carrel.errors import ConfigError


def read(arguments):
    return parsed(arguments)[0]


def parsed(arguments):
    parser = Parser("serve", "Share folders.")
    add_sharing_options(parser)
    add_source_flags(parser)
    return parser.parse_args(arguments), parser.flags


def again(arguments):
    """Return the arguments that say the same as these."""
    options, flags = parsed(arguments)
    return as_arguments(options, options.skills, flags)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", 1),
        ("500000", 500_000),
        ("64k", 65_536),
        ("500KiB", 512_000),
        ("10MiB", 10_485_760),
        ("10 mb", 10_485_760),
        ("1.5M", 1_572_864),
        ("1GiB", 1_073_741_824),
    ],
)
def test_a_size_is_read_with_or_without_a_unit(text, expected):
    assert size(text) == expected
    assert size(shown_size(expected)) == expected


@pytest.mark.parametrize("text", ["", "0", "-1", "ten", "10XiB", "MiB", "1e400", "nan", "inf", "9" * 30])
def test_what_is_not_a_size_is_refused_with_an_example(text):
    with pytest.raises(ConfigError, match="is not a size such as 500KiB"):
        read([f"--max-size={text}"])


@pytest.mark.parametrize("text", ["0", "-3", "1.5", "many", "٣", "9999999999"])
def test_a_page_size_is_a_whole_number_from_one_up(text):
    with pytest.raises(ConfigError, match="is not a whole number from 1 to 999999999"):
        read([f"--page-size={text}"])


@pytest.mark.parametrize("text", ["-1", "nan", "inf", "soon"])
def test_a_time_is_a_number_of_seconds(text):
    with pytest.raises(ArgumentTypeError, match="is not a number"):
        seconds(text)


def test_options_that_are_not_given_need_no_arguments():
    assert again([]) == []


def test_options_survive_being_written_down_and_read_again():
    given = [
        "--name=my notes",
        f"--skills={os.path.abspath('skills')}",
        "--include=*.md",
        "--include=-odd",
        "--exclude=drafts/**",
        "--hidden",
        "--follow-symlinks",
        "--no-gitignore",
        "--max-size=512000",
        "--no-tools",
        "--page-size=7",
    ]
    assert sorted(again(given)) == sorted(given)
    assert read(again(given)) == read(given)


def test_wrong_use_is_one_line_that_points_to_the_help():
    with pytest.raises(
        ConfigError, match=r"^unrecognized arguments: --hid; did you mean '--hidden'\? \(see carrel serve --help\)$"
    ):
        read(["--hid"])


def test_folders_become_absolute(tmp_path, monkeypatch):
    (tmp_path / "notes").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert check_paths(["notes"]) == [str(tmp_path / "notes")]
    assert check_paths(["~/notes"]) == [str(tmp_path / "notes")]
    assert default_name(check_paths(["."])) == tmp_path.name
    assert default_name(["/"]) == "carrel"


def test_skills_are_in_folders(tmp_path):
    (tmp_path / "skills").mkdir()
    (tmp_path / "a.txt").write_text("x")
    assert check_skills([str(tmp_path / "skills")]) == [str(tmp_path / "skills")]
    assert check_skills([f"{tmp_path}/x/../skills"]) == [f"{tmp_path}/skills"]
    with pytest.raises(ConfigError, match=r"--skills .*a\.txt is not a folder"):
        check_skills([str(tmp_path / "a.txt")])
    with pytest.raises(ConfigError, match="no such file or folder"):
        check_skills([str(tmp_path / "skill")])


def test_a_missing_path_is_named_with_the_one_that_was_meant(tmp_path):
    (tmp_path / "documents").mkdir()
    with pytest.raises(ConfigError, match=r"no such file or folder: .*docments \(did you mean .*documents\?\)"):
        check_paths([str(tmp_path / "docments")])
    with pytest.raises(ConfigError, match=r"no such file or folder: .*/xyz$"):
        check_paths([str(tmp_path / "xyz")])
    with pytest.raises(ConfigError, match=r"no such file or folder: /nowhere/at/all$"):
        check_paths(["/nowhere/at/all"])


def test_a_file_can_be_shared_by_itself_and_nothing_else_can(tmp_path):
    (tmp_path / "a.txt").write_text("x")
    assert check_paths([str(tmp_path / "a.txt")]) == [str(tmp_path / "a.txt")]
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="is neither a file nor a folder"):
        check_paths([str(tmp_path / "pipe")])


def test_folders_inside_each_other_would_share_files_twice(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "ab").mkdir()
    for paths in (["a", "a/b"], ["a/b", "a"], ["a", "a"]):
        with pytest.raises(ConfigError, match="share the same files"):
            check_paths([os.path.join(tmp_path, path) for path in paths])
    assert len(check_paths([str(tmp_path / "a"), str(tmp_path / "ab")])) == 2


def test_limits_are_set_by_name():
    settings = ["max_sessions=5", "session_ttl=0.5", "max_sessions=6", "max_message_bytes=2MiB"]
    limits = Limits(**dict(map(read_limit, settings)))
    assert limits == Limits(max_sessions=6, session_ttl=0.5, max_message_bytes=2 * 1024 * 1024)


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ("max_sesions=5", "there is no limit 'max_sesions'"),
        ("max_sessions", "'' is not a number"),
        ("max_message_bytes=5XB", "'5XB' is not a size"),
        ("max_sessions=1.5", "'1.5' is not a number"),
        ("max_sessions=0", "max_sessions must be a number above 0"),
        ("session_ttl=nan", "session_ttl must be a number above 0"),
    ],
)
def test_a_limit_that_makes_no_sense_is_refused(setting, complaint):
    with pytest.raises(ConfigError, match=complaint):
        Limits(**dict([read_limit(setting)]))
