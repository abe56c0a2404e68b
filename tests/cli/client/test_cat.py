"""``carrel cat``: templates and files. Printing is tested with the other commands that ask a server."""

import pytest

from support.carrel_process import BOOKS, carrel

TEMPLATE = "book://{author}/{title}"


def test_the_variables_of_a_template_are_options():
    done = carrel("cat", BOOKS, TEMPLATE, "--author", "lem", "--title", "eden two")
    assert (done.stdout, done.stderr) == (b"eden two by lem\n", b"")
    assert carrel("cat", BOOKS, TEMPLATE, "author=lem", "title=eden").stdout == b"eden by lem\n"


def test_a_resource_is_written_into_a_file(tmp_path):
    carrel("cat", BOOKS, "book://cover", "-o", str(tmp_path / "cover.png"))
    assert (tmp_path / "cover.png").read_bytes() == b"\x89PNG\x00"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([TEMPLATE, "--author", "lem"], f"{TEMPLATE} needs --title VALUE"),
        ([TEMPLATE, "autor=lem"], f"{TEMPLATE} has no variable 'autor'; did you mean 'author'?"),
        ([TEMPLATE, "lem"], "'lem' is not a variable: write name=value"),
        (["book://{author", "--author", "x"], "is not a URI template"),
        (["book://cover", "-o", "/no/such/folder/x"], "cannot be written: No such file or directory"),
    ],
)
def test_wrong_use_is_explained(arguments, complaint):
    done = carrel("cat", BOOKS, *arguments)
    assert done.returncode == 2
    assert complaint in done.stderr.decode()


def test_a_file_in_shift_jis_is_printed_whole_and_by_lines(tmp_path):
    lines = ["図書館は午前九時に開きます。\n", "新しい本は入口の近くの棚に並んでいます。\n"] * 3
    (tmp_path / "notes.txt").write_bytes("".join(lines).encode("shift_jis"))
    uri = (tmp_path / "notes.txt").as_uri()
    assert carrel("cat", str(tmp_path), uri).stdout.decode() == "".join(lines)
    assert carrel("cat", str(tmp_path), f"{uri}?tail=1").stdout.decode() == lines[1]
