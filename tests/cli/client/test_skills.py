"""``carrel skills``: skills of a server."""

import json

from support.carrel_process import BOOKS, carrel, command

SKILL = "---\nname: review\ndescription: Reviews code.\n---\n# Review\nRead it twice.\n"


def test_skills_are_listed_and_one_is_printed_by_its_name(tmp_path):
    (tmp_path / "review").mkdir()
    (tmp_path / "review/SKILL.md").write_text(SKILL)
    server = ["--", *command("serve", "--skills", str(tmp_path))]
    listed = carrel("skills", *server).stdout.decode()
    assert listed.startswith("Skills\n  review  1 file  ")
    assert listed.endswith("/review/SKILL.md  Reviews code.\n")
    (skill,) = json.loads(carrel("skills", "--json", *server).stdout)
    assert skill["frontmatter"]["name"] == "review"
    assert carrel("skills", "review", *server).stdout.decode() == SKILL
    assert carrel("skills", skill["uri"], *server).stdout.decode() == SKILL
    missing = carrel("skills", "revew", *server)
    assert (missing.returncode, missing.stderr) == (
        2,
        b"carrel: there is no skill 'revew'; did you mean 'review'?\n",
    )


def test_a_server_without_skills_is_exit_code_1():
    done = carrel("skills", BOOKS)
    assert (done.returncode, done.stderr.decode()) == (1, f"carrel: {BOOKS} has no skills: it does not declare them\n")
