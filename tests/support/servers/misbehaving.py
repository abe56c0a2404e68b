"""A program that takes the place of a server and does one thing, which its first argument names."""

import os
import signal
import sys
import time
from pathlib import Path

#: A process that stays although its input is at its end. It closes a descriptor once it is ready.
STAYS = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN if sys.argv[1] == "stubborn" else signal.SIG_DFL)
os.close(int(sys.argv[2]))
time.sleep(600)
"""


def say(*lines: str) -> None:
    for line in lines:
        sys.stdout.write(line + "\n")
    sys.stdout.flush()


def echo() -> None:
    for line in sys.stdin:
        say(line.rstrip("\n"))


def stay() -> None:
    time.sleep(600)


def bear(kind: str) -> None:
    """Have a grandchild that holds the pipes open, and say its number once it is ready."""
    import subprocess

    ready, theirs = os.pipe()
    grandchild = subprocess.Popen([sys.executable, "-IS", "-c", STAYS, kind, str(theirs)], pass_fds=[theirs])
    os.close(theirs)
    os.read(ready, 1)
    say(str(grandchild.pid))
    grandchild.returncode = 0  # nobody is to wait for it


def main(how: str, *arguments: str) -> None:
    match how:
        case "echo":
            echo()
        case "gulp":  # says how much the first read brings
            say(str(len(os.read(0, 1 << 16))))
            echo()
        case "sleepy":  # ends at SIGTERM, not at the end of its input
            say("ready")
            stay()
        case "stubborn":  # ends at neither
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            say("ready")
            stay()
        case "tidy":  # takes its leave at the end of its input
            say("ready")
            sys.stdin.read()
            Path(arguments[0]).write_text("left in peace")
        case "family":
            bear(*arguments)
            echo()
        case "orphan":  # ends, and leaves a grandchild behind
            bear(*arguments)
        case "crash":
            print("It began well: 糖尿病", file=sys.stderr)
            raise RuntimeError("no such shelf")
        case "status":
            sys.exit(int(arguments[0]))
        case "killed":
            os.kill(os.getpid(), int(arguments[0]))
        case "unfinished":  # dies in the middle of an answer
            os.write(1, b'{"whole": true}\n{"half": ')
            os._exit(1)
        case "deaf":
            os.close(0)
            say("ready")
            stay()
        case "mute":
            say("ready")
            os.close(1)
            stay()
        case "junk":
            os.write(1, b"Starting up...\n\n  \n\r\n\xff\xfe\x00\n{}\r\n")
            echo()
        case "crumbs":
            for byte in b'{"a": 1}\n{"b": 2}\n' * 20:
                os.write(1, bytes([byte]))
            echo()
        case "large":  # a line of so many megabytes, which may have no end
            for _ in range(int(arguments[0])):
                sys.stdout.write("x" * 1_000_000)
            sys.stdout.write("\n" * int(arguments[1]))
            sys.stdout.flush()
            echo()
        case "oversize":  # responses of so many bytes, with the id first or last, and then an echo
            text = "x" * int(arguments[0])
            sys.stdout.write(f'{{"jsonrpc":"2.0","id":1,"result":{{"text":"{text}"}}}}\n')
            sys.stdout.write(f'{{"result":{{"text":"{text}"}},"jsonrpc":"2.0","id":2}}\n')
            sys.stdout.flush()
            echo()
        case "flood":
            for number in range(50_000):
                print(f"line {number}", file=sys.stderr)
            say("flooded")
            echo()
        case "complain":
            sys.stderr.buffer.write(b"one\r\n\xfftwo\n" + b"x" * 70_000 + b"\nno end")
        case "idle":  # does not read before it is told to
            Path(arguments[0]).read_text()
            echo()
        case "surroundings":
            say(repr(dict(os.environ)), repr(sys.argv[2:]), os.getcwd(), str(os.getsid(0) == os.getpid()))
            echo()


main(*sys.argv[1:])
