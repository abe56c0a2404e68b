"""A program that is no more than a pipe: what it reads goes to a socket, and what comes from there is written."""

import os
import socket
import sys
import threading

connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))


def hand_on() -> None:
    """Write what comes from the socket; the program ends when that does."""
    while data := connection.recv(65536):
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    os._exit(0)


out = threading.Thread(target=hand_on)
out.start()
while read := sys.stdin.buffer.raw.read(65536):
    connection.sendall(read)
connection.shutdown(socket.SHUT_WR)
out.join()
