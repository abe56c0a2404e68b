"""A client on the pipes of a server: a fixed number of requests in flight, every answer checked."""

import os
import select
import time
from collections.abc import Sequence

from .messages import FIRST_ID, HANDSHAKE, INITIALIZED, Question, WrongAnswer, id_of, initialize
from .processes import PATIENCE, Process, ServerFailed
from .window import Sample, Window


class StdioClient:
    """Asks one server on its standard streams, with plain reads and writes of the pipes."""

    def __init__(self, process: Process) -> None:
        stdin, stdout = process.popen.stdin, process.popen.stdout
        assert stdin is not None
        assert stdout is not None
        self.process = process
        self.input = stdin.fileno()
        self.output = stdout.fileno()
        self.ready = select.poll()
        self.ready.register(self.output, select.POLLIN)
        self.pieces: list[bytes] = []
        self.next_id = FIRST_ID

    def write(self, data: bytes) -> None:
        """Send bytes. All requests in flight fit into the pipe, so this never waits for long."""
        try:
            while data:
                data = data[os.write(self.input, data) :]
        except BrokenPipeError:
            raise ServerFailed(f"closed its input: {self.process.complaint()}") from None

    def read(self) -> list[bytes]:
        """The next lines that arrive, at least one.

        Raises:
            ServerFailed: It closed its output or is silent.
        """
        while True:
            if not self.ready.poll(PATIENCE * 1000):
                raise ServerFailed(f"silent for {PATIENCE:.0f} s: {self.process.complaint()}")
            data = os.read(self.output, 1 << 18)
            if not data:
                raise ServerFailed(f"closed its output: {self.process.complaint()}")
            self.pieces.append(data)
            if b"\n" in data:
                *lines, rest = b"".join(self.pieces).split(b"\n")
                self.pieces = [rest] if rest else []
                return lines

    def ask(self, question: Question) -> None:
        """Send one question and check its answer."""
        id = self.next_id
        self.next_id += 1
        self.write(question.body(id) + b"\n")
        while True:
            for line in self.read():
                if id_of(line) == id:
                    question.check(line)
                    return

    def open(self, revision: str) -> None:
        """Send the messages that a client of this revision sends before its first request."""
        if revision == HANDSHAKE:
            self.ask(initialize())
            self.write(INITIALIZED + b"\n")

    def load(self, questions: Sequence[Question], in_flight: int, seconds: float) -> Sample:
        """Keep `in_flight` requests open until the window closes, then take the answers that are owed."""
        for question in questions:
            self.ask(question)
        window = Window(self.process, seconds, in_flight)
        kinds = len(questions)
        asked: dict[int, tuple[Question, float]] = {}

        def send(number: int) -> None:
            now = time.perf_counter()
            bodies = []
            for _ in range(number):
                id = self.next_id
                self.next_id += 1
                question = questions[id % kinds]
                asked[id] = (question, now)
                bodies.append(question.body(id))
            self.write(b"\n".join(bodies) + b"\n")

        send(in_flight)
        while asked:
            lines = self.read()
            now = time.perf_counter()
            answered = 0
            for line in lines:
                id = id_of(line)
                if id is None:
                    continue
                if id not in asked:
                    raise WrongAnswer(f"an answer to {id}, which is not asked")
                question, sent = asked.pop(id)
                question.check(line)
                window.record(sent, now)
                answered += 1
            if answered and window.closed is None:
                send(answered)
        return window.sample()
