"""Runs the suite's client in forks of one process, as importing everything takes longer than most scenarios.

python tests/conformance/forking.py SOCKET AT_ONCE      the process that forks
python -S -E tests/conformance/forking.py SOCKET URL    what the suite starts as the client: has a fork do its work
"""

import os
import socket
import sys


def hand_over(path: str, url: str) -> int:
    """Have a fork do one scenario with the environment and the output of this process, and return its exit code."""
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(path)
        scenario, context = (os.environ.get(f"MCP_CONFORMANCE_{name}", "") for name in ("SCENARIO", "CONTEXT"))
        socket.send_fds(link, ["\0".join((scenario, context, url)).encode()], [1, 2])
        link.shutdown(socket.SHUT_WR)
        code = link.recv(1)
    return code[0] if code else 1


def serve(path: str, at_once: int) -> None:
    """Fork for every connection. No more than ``at_once`` forks run at the same time."""
    running = 0
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(128)
        print("listening", flush=True)
        while True:
            link, _ = listener.accept()
            if running == at_once:
                os.wait()
                running -= 1
            if os.fork() == 0:
                listener.close()
                act(link)
            running += 1
            link.close()


def act(link: socket.socket) -> None:
    """Do what was handed over, tell the exit code, and end."""
    import traceback

    from conformance import client

    code = 1
    try:
        data, outputs, _, _ = socket.recv_fds(link, 1 << 16, 2)
        while more := link.recv(1 << 16):
            data += more
        for number, output in enumerate(outputs, start=1):
            os.dup2(output, number)
            os.close(output)
        scenario, context, url = data.decode().split("\0")
        os.environ.update(MCP_CONFORMANCE_SCENARIO=scenario, MCP_CONFORMANCE_CONTEXT=context)
        sys.argv = ["client.py", url]
        code = client.main()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        link.send(bytes([code]))
        os._exit(code)


if __name__ == "__main__":
    if sys.argv[2].isdigit():
        from pathlib import Path

        sys.path.insert(0, str(Path(__file__).parent.parent))
        from conformance import authorization, client  # noqa: F401  so that the forks have it

        serve(sys.argv[1], int(sys.argv[2]))
    sys.exit(hand_over(sys.argv[1], sys.argv[2]))
