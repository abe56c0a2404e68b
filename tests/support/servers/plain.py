"""A server on stdio for a test to attack. Arguments: ``uvloop``, ``grace=SECONDS``, ``max=BYTES``, ``noise``."""

import asyncio
import ctypes
import os
import pathlib
import subprocess
import sys
import threading

from carrel import Context, Limits, Server
from carrel.transports import process
from carrel.transports.server import stdio

LISTING = "import os; print(sorted(os.listdir('/proc/self/fd'), key=int))"

app = Server("plain", version="1")
stopped = asyncio.Event()

app.resources.add("memo://text", "text", name="text")
app.resources.add("memo://big", "x" * 1_000_000, name="big", mime_type="text/plain")


@app.tool()
async def echo(text: str) -> str:
    return text


@app.tool()
async def later(text: str) -> str:
    await asyncio.sleep(0.2)
    return text


@app.tool()
async def when_told(fifo: str) -> str:
    """Return what is written to a FIFO."""
    return await asyncio.to_thread(pathlib.Path(fifo).read_text)


@app.tool()
async def wait(ctx: Context) -> str:
    """Wait until cancelled; say with a report of progress that it has begun."""
    ctx.report_progress(1)
    try:
        return await asyncio.get_running_loop().create_future()
    except asyncio.CancelledError:
        stopped.set()
        raise


@app.tool()
async def stubborn(ctx: Context) -> str:
    """Make nothing of being cancelled."""
    ctx.report_progress(1)
    try:
        await asyncio.get_running_loop().create_future()
    except asyncio.CancelledError:
        stopped.set()
    return "I am still here"


@app.tool()
async def was_stopped() -> str:
    await stopped.wait()
    stopped.clear()
    return "stopped"


@app.tool()
async def broken() -> str:
    """Wait for something that somebody else cancels."""
    inner = asyncio.get_running_loop().create_future()
    inner.get_loop().call_soon(inner.cancel)
    return await inner


@app.tool()
def hang(ctx: Context) -> str:
    """Never come back from a thread."""
    ctx.report_progress(1)
    threading.Event().wait()
    return ""


@app.tool()
async def count(n: int, ctx: Context) -> str:
    for number in range(n):
        await ctx.info(number)
    return "counted"


@app.tool()
async def touch(times: int, fifo: str = "") -> str:
    """Change a resource again and again; then open ``fifo``, where somebody waits for that."""
    for _ in range(times):
        app.resources.changed("memo://text")
        await asyncio.sleep(0.06)
    if fifo:
        await asyncio.to_thread(pathlib.Path(fifo).write_text, "touched")
    return "touched"


@app.tool()
async def shout(how: str) -> str:
    """Write to standard output where only the protocol may."""
    if how == "print":
        print("stray print")
    elif how == "unprintable":
        print("stray 糖尿病")
    elif how == "buffered":
        sys.stdout.write("stray buffered")
    elif how == "binary":
        sys.stdout.buffer.write(b"stray binary\n")
        sys.stdout.buffer.flush()
    elif how == "descriptor":
        os.write(1, b"stray descriptor\n")
    elif how == "child":
        await (await asyncio.create_subprocess_exec("echo", "stray child")).wait()
    elif how == "shell":
        os.system("echo stray shell")
    elif how == "libc":
        ctypes.CDLL(None).puts(b"stray libc")  # stays in the buffer of the C library until the process ends
    elif how == "reopened":
        print("stray reopened", file=sys.__stdout__)
    return "shouted"


@app.tool()
async def child_reads() -> str:
    """What a child process and ``input`` find on standard input."""
    process = await asyncio.create_subprocess_exec("cat", stdout=subprocess.PIPE)
    (read, _) = await process.communicate()
    try:
        return read.decode() + input()
    except EOFError:
        return read.decode() + "nothing"


@app.tool()
def child_descriptors() -> str:
    return subprocess.run(
        [sys.executable, "-c", LISTING], close_fds=False, capture_output=True, text=True, check=True
    ).stdout


def main() -> None:
    options = dict(argument.partition("=")[::2] for argument in sys.argv[1:])
    if "noise" in options:
        print("stray at import")
        sys.stdout.write("stray unfinished")
        ctypes.CDLL(None).puts(b"stray libc at import")
    if "uvloop" in options:
        import uvloop

        asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    if "grace" in options:
        process.run(stdio.serve(app, *stdio.claim(), grace=float(options["grace"])))
    else:
        if "max" in options:
            app.limits = Limits(max_message_bytes=int(options["max"]))
        app.run()


if __name__ == "__main__":
    main()
