"""``carrel completion``: prints a shell script that completes commands, options, files and names.

shtab generates the script from the argument parsers. It completes commands, options and files without starting a
process. For names of servers, tools, prompts and resources, the script runs this command with ``--line``, and
``carrel.cli.completion.candidates`` returns the candidates.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from carrel.cli import COMMANDS, module_of
from carrel.cli.options import Parser
from carrel.errors import ConfigError

__all__ = ["SHELLS", "parser", "run", "whole_parser"]

SUMMARY = "Print a script for your shell, which completes commands, options and files of carrel."
SHELLS = ("bash", "zsh", "fish")
EXAMPLES = """\
examples:
  carrel completion bash > ~/.local/share/bash-completion/completions/carrel
  carrel completion zsh > ~/.zfunc/_carrel      with fpath+=~/.zfunc before compinit in ~/.zshrc
  carrel completion fish > ~/.config/fish/completions/carrel.fish
"""
MISSING = "carrel completion needs shtab: pip install 'carrel[completion]'"

#: Additions to the scripts. Standard input is empty, so that no prompt can wait for input.
BASH = r"""
_carrel_words() {
  local word found=()
  _shtab_carrel "$@"
  case "${COMP_WORDS[1]}" in COMMANDS) ;; *) return 0 ;; esac
  while IFS= read -r word; do found+=("$word"); done < <(
    "${1:-carrel}" completion bash --line="${COMP_LINE:0:COMP_POINT}" --word="${COMP_WORDS[COMP_CWORD]}" \
      </dev/null 2>/dev/null)
  [ ${#found[@]} -gt 1 ] || return 0
  if [ "${found[0]}" = only ]; then
    COMPREPLY=()
    compopt +o filenames 2>/dev/null || :
  fi
  COMPREPLY+=("${found[@]:1}")
  [[ ${#COMPREPLY[@]} = 1 && "${COMPREPLY[0]}" == *= ]] && { compopt -o nospace 2>/dev/null || :; }
  return 0
}
"""
ZSH = r"""
_carrel_words() {
  local -a carrel_found
  case "${words[2]}" in
    (COMMANDS)
      (( CURRENT > 2 )) && carrel_found=("${(@f)$(
        carrel completion zsh --line="${(j: :)words[1,CURRENT]}" </dev/null 2>/dev/null)}") ;;
  esac
  if (( $#carrel_found > 1 )); then
    local carrel_kind="$carrel_found[1]"
    shift carrel_found
    compadd -S '' -- ${(M)carrel_found:#*=}
    compadd -- ${carrel_found:#*=}
    [[ "$carrel_kind" == only ]] && return 0
  fi
  _shtab_carrel "$@"
}
"""
FISH = r"""
complete -c carrel -n '__fish_seen_subcommand_from COMMANDS' \
  -a '(carrel completion fish --line (commandline -cp | string collect) </dev/null 2>/dev/null | tail -n +2)'
"""

#: Arguments whose values are files, and arguments whose values are folders.
FILES = ("targets", "target", "config", "tokens", "file", "files")
FOLDERS = ("skills", "folder")


def parser() -> Parser:
    """Return the argument parser of ``carrel completion``."""
    reader = Parser("completion", SUMMARY, epilog=EXAMPLES)
    reader.add_argument("shell", metavar="SHELL", choices=SHELLS, help="bash, zsh or fish")
    reader.add_argument(
        "--line", metavar="LINE", help="print the words that may follow a command line; the script calls this itself"
    )
    reader.add_argument("--word", metavar="WORD", default="", help="with --line: the last word, as bash splits it")
    return reader


def run(arguments: list[str]) -> int:
    """Run ``carrel completion``.

    Raises:
        ConfigError: there is no such shell, or shtab is not installed.
    """
    options = parser().parse_args(arguments)
    if options.line is not None:
        return show_words(options)
    try:
        import shtab
    except ImportError:
        raise ConfigError(MISSING) from None
    whole = whole_parser()
    for command in (whole, *parsers_in(whole)):
        for action in command._actions:
            if action.dest in FILES:
                action.complete = shtab.FILE  # type: ignore[attr-defined]
            elif action.dest in FOLDERS:
                action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
    sys.stdout.write(with_words(shtab.complete(whole, options.shell), options.shell) + "\n")
    return 0


def show_words(options: argparse.Namespace) -> int:
    """Print the completion candidates of a command line, one per line.

    The first line is "only", or "more" if files are completed too.
    """
    from carrel.cli.completion.candidates import candidates, for_bash

    try:
        found = candidates(options.line)
    except ConfigError:  # such as a configuration that cannot be read; the command itself says so
        return 0
    words = for_bash(options.line, options.word, found) if options.shell == "bash" else found.words
    if words:
        sys.stdout.write("\n".join(["only" if found.alone else "more", *words]) + "\n")
    return 0


def with_words(script: str, shell: str) -> str:
    """Return the script of a shell with the function that requests candidates."""
    from carrel.cli.completion.candidates import WORDS

    if shell == "fish":
        return script + FISH.replace("COMMANDS", " ".join(WORDS))
    if shell == "zsh":
        head, mark, tail = script.partition("\ntypeset -A opt_args\n")
        tail = tail.replace("compdef _shtab_carrel", "compdef _carrel_words").replace(
            "  _shtab_carrel ", "  _carrel_words "
        )
        return head + ZSH.replace("COMMANDS", "|".join(WORDS)) + mark + tail
    return script.replace("-F _shtab_carrel carrel", "-F _carrel_words carrel").replace(
        "\ncomplete -o", BASH.replace("COMMANDS", "|".join(WORDS)) + "\ncomplete -o"
    )


def whole_parser() -> argparse.ArgumentParser:
    """Return one parser with all commands and their options. All command modules are imported."""
    whole = argparse.ArgumentParser("carrel", description="The Model Context Protocol.", allow_abbrev=False)
    whole.add_argument("--version", "-V", action="store_true", help="print the version")
    whole.add_argument("--debug", action="store_true", help="print the traceback of an error")
    commands = whole.add_subparsers(dest="command")
    for name, (_, summary) in COMMANDS.items():
        commands.add_parser(name, help=summary, parents=[module_of(name).parser()], add_help=False)
    return whole


def parsers_in(whole: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield the parsers of the commands in a parser."""
    for action in whole._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.values()
