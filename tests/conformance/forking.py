"""Runs programs in forks of one process, as importing everything takes longer than most of what they do.

python tests/conformance/forking.py --serve SOCKET MODULE AT_ONCE    the process that imports and forks
python -S -E tests/conformance/forking.py SOCKET ARGUMENT…           the program: a fork calls ``main`` of the module
"""

import json
import os
import signal
import socket
import sys

#: Prefix of the environment variables that a fork gets.
PREFIX = "MCP_CONFORMANCE_"


def hand_over(path: str, arguments: list[str]) -> int:
    """Have a fork work with the standard streams of this process, and return its exit code."""
    variables = {name: value for name, value in os.environ.items() if name.startswith(PREFIX)}
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(path)
        socket.send_fds(link, [json.dumps([arguments, variables]).encode() + b"\n"], [0, 1, 2])
        code = link.recv(1)
    return code[0] if code else 1


def serve(path: str, module: str, at_once: int) -> None:
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
                act(link, module)
            running += 1
            link.close()


def act(link: socket.socket, module: str) -> None:
    """Do what was handed over, send the exit code, and end."""
    import threading
    import traceback

    code = 1
    try:
        data, streams, _, _ = socket.recv_fds(link, 1 << 16, 3)
        while not data.endswith(b"\n") and (more := link.recv(1 << 16)):
            data += more
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        arguments, variables = json.loads(data)
        os.environ.update(variables)
        sys.argv = [module, *arguments]
        threading.Thread(target=end_with, args=[link], daemon=True).start()
        code = sys.modules[f"conformance.{module}"].main()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        link.send(bytes([code]))
        os._exit(code)


def end_with(link: socket.socket) -> None:
    """Terminate this process if the process that has handed over ends first."""
    link.recv(1)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        from importlib import import_module
        from pathlib import Path

        sys.path.insert(0, str(Path(__file__).parent.parent))
        import_module(f"conformance.{sys.argv[3]}")
        serve(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    sys.exit(hand_over(sys.argv[1], sys.argv[2:]))
