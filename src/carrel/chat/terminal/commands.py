"""Commands of the chat: ``/help``, ``/model``, ``/tools`` and the others."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from carrel.chat.export import as_markdown
from carrel.chat.prompts import read_pairs
from carrel.chat.session import ChatSession
from carrel.chat.terminal.dialogs import ScreenLike
from carrel.chat.terminal.dialogs import hints_of as hints_of_tool
from carrel.chat.terminal.text import clean_line
from carrel.chat.tokens import tokens_of
from carrel.columns import aligned
from carrel.errors import ConfigError
from carrel.near_names import did_you_mean
from carrel.vendors.token_estimate import tokens_of_tools

__all__ = ["KEYS", "Commands", "Quit", "SlashCommand"]

#: Entries that a list shows.
MOST = 40
KEYS = """\
Enter sends; Alt-Enter, Ctrl-J, or a backslash before Enter begins another line. Up and Ctrl-R find earlier messages.
@SERVER:URI attaches a resource; Tab completes. /SERVER:PROMPT name=value … sends a prompt of a server.
Ctrl-C stops an answer, clears the line, and, pressed twice on an empty line, leaves. Ctrl-D leaves too."""


class Quit(Exception):
    """The user wants to leave."""


class SlashCommand(NamedTuple):
    """Command: its arguments as ``/help`` shows them, its description, and the function that gets the arguments."""

    arguments: str
    about: str
    run: Callable[[str], Awaitable[None]]


class Commands:
    """Commands of a chat session. ``turn`` runs what asks the model, such as ``/retry``; ``models`` are known names."""

    def __init__(
        self,
        session: ChatSession,
        screen: ScreenLike,
        turn: Callable[[Awaitable[object]], Awaitable[None]],
        models: Sequence[str] = (),
    ) -> None:
        self._session = session
        self._screen = screen
        self._turn = turn
        self._models = models
        self.table: Mapping[str, SlashCommand] = {
            "help": SlashCommand("", "show this", self.help),
            "model": SlashCommand("[VENDOR:MODEL]", "show the model, or switch to another one", self.model),
            "servers": SlashCommand("[NAME]", "show the servers; with a name, connect to it again", self.servers),
            "tools": SlashCommand(
                "[on|off NAME]", "show the tools; take a server or a server:tool away, and back", self.tools
            ),
            "resources": SlashCommand("[WORDS]", "show the resources, or find some", self.resources),
            "prompts": SlashCommand("", "show the prompts of the servers", self.prompts),
            "attach": SlashCommand("SOURCE [name=value …]", "attach @server:uri, a template, or a file", self.attach),
            "tokens": SlashCommand("", "show the tokens and the cost of the conversation", self.tokens),
            "approvals": SlashCommand("[forget [SERVER]]", "show the tools that are always allowed", self.approvals),
            "retry": SlashCommand("", "ask the model again after an error", self.retry),
            "undo": SlashCommand("", "take back your last message and its answer", self.undo),
            "save": SlashCommand("FILE", "write the conversation as Markdown", self.save),
            "resume": SlashCommand("[ID]", "resume a saved conversation, or list them", self.resume),
            "rename": SlashCommand("TITLE", "give the conversation a title", self.rename),
            "clear": SlashCommand("", "begin a new conversation", self.clear),
            "quit": SlashCommand("", "leave", self.quit),
        }
        self.table = {**self.table, "exit": SlashCommand("", "leave", self.quit)}

    @property
    def names(self) -> Mapping[str, str]:
        """Descriptions of the commands by name."""
        return {name: command.about for name, command in self.table.items()}

    def values(self, name: str) -> Iterable[tuple[str, str]]:
        """Return the possible values of a command's argument."""
        servers = [(server, "server") for server in self._session.host.servers]
        if name == "model":
            return [(model, "") for model in self._models]
        if name == "servers":
            return servers
        if name == "tools":
            return [("on", "give it back"), ("off", "take it away"), *servers]
        if name == "approvals":
            return [("forget", "ask again"), *servers]
        if name == "resume" and self._session.store is not None:
            return [(saved.id, saved.title) for saved in self._session.store.list()[:MOST]]
        return ()

    async def run(self, name: str, arguments: str) -> None:
        """Run a command.

        Raises:
            ConfigError: the command is unknown, or its arguments are not valid.
            MCPError: a server or the model refuses.
            Quit: it was ``/quit``.
        """
        command = self.table.get(name)
        if command is None:
            hint = did_you_mean(name, self.table) or "; /help lists the commands, /prompts the prompts of the servers"
            raise ConfigError(f"there is no command /{name}{hint}")
        if arguments and not command.arguments:
            raise ConfigError(f"/{name} takes no arguments")
        await command.run(arguments)

    # Each command

    async def help(self, arguments: str) -> None:
        """Show the commands and the keys."""
        rows = [(f"/{name} {one.arguments}".strip(), one.about) for name, one in self.table.items() if name != "exit"]
        self._table(rows)
        self._screen.say(f"\n{KEYS}")

    async def model(self, arguments: str) -> None:
        """Show or change the model."""
        if arguments:
            await self._session.use_model(arguments)
            self._screen.say(f"The model is {clean_line(self._session.model.name)} now.")
            return
        self._screen.say(f"The model is {clean_line(self._session.model.name)}.")
        if self._models:
            self._screen.say(f"Others: {', '.join(self._models)}", "dim")

    async def servers(self, arguments: str) -> None:
        """Show the servers, or connect to one again."""
        host = self._session.host
        if arguments:
            await host.reconnect(arguments)
        rows = []
        for server in host.servers.values():
            about = "" if server.info is None else f"{server.info.name} {server.info.version}, MCP {server.revision}"
            if server.state == "ready" and server.empty:
                about += ", offers nothing"
            rows.append((server.name, server.state, about or (server.reason or "").partition("\n")[0]))
        self._table(rows, "There are no servers. Start with: carrel chat TARGET …")
        for problem in host.problems:
            self._screen.say(clean_line(problem, 400), "yellow")

    async def tools(self, arguments: str) -> None:
        """Show the tools, or take some away from the model."""
        toolbox = self._session.toolbox
        listed = await self._session.host.list_tools()
        if arguments:
            switch, _, name = arguments.partition(" ")
            names = [*self._session.host.servers, *(f"{one.server}:{one.item.name}" for one in listed)]
            if switch not in ("on", "off") or name not in names:
                hint = did_you_mean(name, names) if switch in ("on", "off") else ": /tools on NAME or /tools off NAME"
                raise ConfigError(f"there is no server or server:tool {name!r}{hint}")
            if switch == "off":
                toolbox.off.add(name)
            else:
                toolbox.off -= {target for target in toolbox.off if target == name or target.startswith(f"{name}:")}
                toolbox.off -= {name.partition(":")[0]}
        rows = []
        for one in listed:
            target = f"{one.server}:{one.item.name}"
            off = "(off) " if {one.server, target} & toolbox.off else ""
            hints = hints_of_tool(one.item)
            note = f" ({', '.join(hints)}, says the server)" if hints else ""
            rows.append((target, f"{off}{one.item.description or one.item.title or ''}{note}"))
        self._table(rows, "The servers have no tools.")

    async def resources(self, arguments: str) -> None:
        """Show the resources and templates, or find some."""
        host = self._session.host
        if arguments:
            found = [(hit.server, hit.item.resource) for hit in await host.search(arguments, limit=MOST)]
        else:
            found = [(one.server, one.item) for one in await host.list_resources()]
        rows = [(f"@{server}:{one.uri}", one.title or one.name) for server, one in found]
        if not arguments:
            rows += [
                (f"@{one.server}:{one.item.uri_template}", f"template: {one.item.title or one.item.name}")
                for one in await host.list_resource_templates()
            ]
        self._table(rows, "No resources match." if arguments else "The servers have no resources.")

    async def prompts(self, arguments: str) -> None:
        """Show the prompts."""
        rows = []
        for one in await self._session.host.list_prompts():
            words = [
                f"{argument.name}=" if argument.required else f"[{argument.name}=]"
                for argument in one.item.arguments or ()
            ]
            rows.append((" ".join([f"/{one.server}:{one.item.name}", *words]), one.item.description or ""))
        self._table(rows, "The servers have no prompts.")

    async def attach(self, arguments: str) -> None:
        """Attach a resource or a file to the next message."""
        words = arguments.split(maxsplit=1)
        if not words:
            raise ConfigError("/attach needs @SERVER:URI, or the path of a file")
        target, pairs = (words[0], words[1] if len(words) > 1 else "")
        if not target.startswith("@"):  # a path may have spaces
            target, pairs = (shlex.split(arguments)[0] if arguments[0] in "\"'" else arguments), ""
        for one in await self._session.attach(target, read_pairs(pairs)):
            name = f"{one.server}:{one.uri}" if one.server else one.uri
            self._screen.say(f"{clean_line(name, 400)} goes with your next message ({one.size:,} characters).")

    async def tokens(self, arguments: str) -> None:
        """Show the tokens and the cost."""
        chat = self._session.chat
        used = chat.conversation.usage
        tools = await self._session.toolbox.tools()
        rows = [
            ("context window", f"{chat.window:,} tokens"),
            ("messages", f"about {tokens_of(chat.conversation.messages):,}"),
            ("tools", f"about {tokens_of_tools(tools):,} for {len(tools)} tools, in each request"),
            ("so far, in", f"{used.input_tokens:,}, of which {used.cached_tokens:,} from the vendor's cache"),
            ("so far, out", f"{used.output_tokens:,}"),
            ("cost", "not known" if chat.conversation.cost is None else f"${chat.conversation.cost:.4f}"),
        ]
        self._table(rows)

    async def approvals(self, arguments: str) -> None:
        """Show or delete the remembered approvals."""
        remembered = self._session.approvals.remembered
        if arguments:
            word, _, server = arguments.partition(" ")
            if word != "forget":
                raise ConfigError("write /approvals, or /approvals forget [SERVER]")
            count = remembered.forget(server or None)
            self._screen.say(f"Forgot {count} tool{'' if count == 1 else 's'}: the next call needs your approval.")
            return
        rows = [(f"{server}:{tool}",) for server, tool in remembered.tools]
        self._table(rows, "No tool is always allowed: each call needs your approval.")

    async def retry(self, arguments: str) -> None:
        """Ask the model again."""
        await self._turn(self._session.retry())

    async def undo(self, arguments: str) -> None:
        """Take back the last question."""
        self._session.undo()
        count = len(self._session.chat.conversation.messages)
        self._screen.say(f"Taken back. The conversation has {count} message{'' if count == 1 else 's'} now.")

    async def save(self, arguments: str) -> None:
        """Write the conversation as Markdown; a file that exists is not replaced."""
        if not arguments:
            raise ConfigError("/save needs the name of a file")
        text = as_markdown(self._session.chat.conversation.messages, self._session.model.name)
        self._screen.say(f"Written to {clean_line(write_new(arguments, text), 400)}.")

    async def resume(self, arguments: str) -> None:
        """Show the saved conversations, or resume one."""
        store = self._session.store
        if store is None:
            raise ConfigError("conversations are not saved: the chat was started with --no-save")
        if not arguments:
            rows = [(one.id, one.changed[:16].replace("T", " "), one.model, one.title) for one in store.list()]
            self._table(rows, "No conversation is saved yet.")
            return
        saved = store.find(arguments)
        self._session.resume(saved)
        self._screen.say(f"Continuing {saved.id}: {clean_line(saved.title)} ({len(saved.messages)} messages)")

    async def rename(self, arguments: str) -> None:
        """Give the conversation a title."""
        if not arguments:
            raise ConfigError("/rename needs a title")
        self._session.file.rename(arguments)
        self._screen.say(f"Renamed: {clean_line(arguments)}")

    async def clear(self, arguments: str) -> None:
        """Begin a new conversation."""
        self._session.clear()
        self._screen.say("A new conversation. The old one is saved." if self._session.store else "A new conversation.")

    async def quit(self, arguments: str) -> None:
        """Leave."""
        raise Quit

    def _table(self, rows: Sequence[Sequence[str]], otherwise: str = "") -> None:
        """Print rows as columns, or ``otherwise`` if there are no rows."""
        if not rows:
            self._screen.say(otherwise)
            return
        cells = [[clean_line(cell, 200) for cell in row] for row in rows[:MOST]]
        for line in aligned(cells, shutil.get_terminal_size().columns - 3):
            self._screen.say(f"  {line}")
        if len(rows) > MOST:
            self._screen.say(f"  … {len(rows) - MOST:,} more", "dim")


def write_new(name: str, text: str) -> str:
    """Write a text into a new file, which only its user can read, and return its path.

    Raises:
        ConfigError: the file exists already, or cannot be written.
    """
    file = Path(name).expanduser()
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as out:
            out.write(text)
    except FileExistsError:
        raise ConfigError(f"{file} exists already") from None
    except OSError as error:
        raise ConfigError(f"{file} cannot be written: {error.strerror}") from None
    return str(file)
