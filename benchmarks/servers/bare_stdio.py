"""The bare server on stdio: bare_stdio.py stdio (small|full). The textbook asyncio loop: a line in, a line out."""

import asyncio
import sys
from asyncio.streams import FlowControlMixin

import bare


async def serve() -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    output, protocol = await loop.connect_write_pipe(FlowControlMixin, sys.stdout)
    writer = asyncio.StreamWriter(output, protocol, reader, loop)
    while line := await reader.readline():
        request = bare.decode(line)
        if request.id is not None:
            writer.write(bare.answer(request) + b"\n")
            await writer.drain()


if __name__ == "__main__":
    bare.fill(sys.argv[2])
    asyncio.run(serve())
