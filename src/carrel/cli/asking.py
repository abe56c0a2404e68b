"""Subcommands that send requests to a server, by name. Each is a module, imported only when it is run."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping

__all__ = ["command_of", "parsers"]


def command_of(name: str) -> Callable[[list[str]], int] | None:
    """Return the function of a subcommand, or None if it is unknown. Only the subcommand's module is imported."""
    if name == "info":
        from carrel.cli import info

        return info.run
    if name == "tools":
        from carrel.cli import tools

        return tools.run
    if name == "prompt":
        from carrel.cli import prompt

        return prompt.run
    if name == "skills":
        from carrel.cli import skills

        return skills.run
    if name == "tree":
        from carrel.cli import tree

        return tree.run
    if name == "find":
        from carrel.cli import find

        return find.run
    if name == "watch":
        from carrel.cli import watch

        return watch.run
    if name == "chat":
        from carrel.cli import chat

        return chat.run
    if name == "doctor":
        from carrel.cli import doctor

        return doctor.run
    if name == "record":
        from carrel.cli import record

        return record.run
    if name == "replay":
        from carrel.cli import replay

        return replay.run
    if name in ("login", "logout"):
        from carrel.cli import login

        return login.run if name == "login" else login.run_logout
    return None


def parsers() -> Mapping[str, argparse.ArgumentParser]:
    """Return the argument parsers of these commands by name. All command modules are imported."""
    from carrel.cli import chat, doctor, find, info, login, prompt, record, replay, skills, tools, tree, watch

    modules = {"info": info, "tools": tools, "prompt": prompt, "skills": skills, "tree": tree, "find": find}
    modules |= {"watch": watch, "chat": chat, "doctor": doctor, "record": record, "replay": replay, "login": login}
    found: dict[str, argparse.ArgumentParser] = {name: module.parser() for name, module in modules.items()}
    return {**found, "logout": login.logout_parser()}
