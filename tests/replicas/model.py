"""Clients of replicas that are killed, and what was acknowledged to them.

Each client keeps what it was told, and complains if some of it is lost afterwards, or was done twice. A request whose
response did not arrive may have had an effect or not, but only one.
"""

from __future__ import annotations

import asyncio
import random
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from .group import Group
from .program import URIS
from .web import Lost, Session, Stream, Web

__all__ = ["Model"]

#: Seconds after which something that was acknowledged counts as lost.
PATIENCE = 60.0
#: Text of a failed task whose replica has stopped.
GONE = "may have done some of its work"


class Model:
    """Clients of a group, whose random choices depend on a seed. ``complaints`` is empty if nothing was lost."""

    def __init__(self, group: Group, seed: int) -> None:
        self._group = group
        self._web = Web(group.url)
        self._random = random.Random(seed)
        self._numbers = iter(range(1_000_000))
        self._seed = seed
        self.complaints: list[str] = []
        self.killed: set[str] = set()
        """Names of the replicas that were killed."""
        self.acknowledged: dict[str, int] = {}
        """How many requests of each kind were acknowledged."""
        self._added: list[str] = []
        self._answered: list[str] = []
        self._changed: list[str] = []
        self._over = asyncio.Event()
        """No replica will be killed any more."""
        self._settled = asyncio.Event()
        """All changes are made."""

    def _id(self, kind: str) -> str:
        return f"{kind}-{self._seed}-{next(self._numbers)}"

    def _complain(self, text: str) -> None:
        self.complaints.append(f"seed {self._seed}: {text}")

    def _acknowledge(self, kind: str) -> None:
        self.acknowledged[kind] = self.acknowledged.get(kind, 0) + 1

    # The run

    async def run(self, seconds: float, kills: int) -> None:
        """Let clients work while replicas are killed, then wait until all is over, and check."""
        clients = [self._add, self._count, self._steps, self._greet, self._rounds, self._jobs, self._session_jobs]
        try:
            async with asyncio.timeout(4 * PATIENCE), asyncio.TaskGroup() as tasks:
                for run in (self._listen, self._listen, self._listen_stateless, self._change):
                    tasks.create_task(run())
                for client in clients:
                    tasks.create_task(self._repeat(client))
                tasks.create_task(self._kill(seconds, kills))
        except TimeoutError:
            self._complain("the clients do not come to an end")
        finally:
            await self._web.close()
        self._check()

    async def _repeat(self, client: Callable[[], Awaitable[None]]) -> None:
        while not self._over.is_set():
            with self._may_be_lost():
                await client()
            await asyncio.sleep(self._random.uniform(0, 0.2))

    @contextmanager
    def _may_be_lost(self) -> Iterator[None]:
        try:
            yield
        except Lost:
            pass
        except (AssertionError, KeyError, TimeoutError) as error:
            self._complain("".join(traceback.format_exception(error)))

    async def _kill(self, seconds: float, kills: int) -> None:
        """Kill random replicas, and start new ones in their place."""
        members = self._group.members
        for _ in range(kills):
            await asyncio.sleep(self._random.uniform(0.3, 1) * seconds / kills)
            chosen = self._random.sample(members, self._random.choice([1, 1, 2, len(members) - 1]))
            self.killed |= {member.name for member in chosen}
            await asyncio.gather(*(member.end() for member in chosen))
            await asyncio.sleep(self._random.uniform(0, 0.5))
            await asyncio.gather(*(member.start() for member in chosen))
        self._over.set()

    def _is_gone(self, name: str) -> bool:
        """Return whether a replica was killed, or has lost its slot because the machine is slow."""
        return name in self.killed or ("fenced", "-", name) in self._group.journal()

    def _runner(self, id: str) -> str:
        """Return the replica that began a call; nothing if none has."""
        return next((name for effect, found, name in self._group.journal() if effect == "begin" and found == id), "")

    def _check(self) -> None:
        effects: dict[tuple[str, str], int] = {}
        for effect, id, _ in self._group.journal():
            if f"-{self._seed}-" in id and effect != "begin":
                effects[effect, id] = effects.get((effect, id), 0) + 1
        for (effect, id), times in effects.items():
            if times > 1:
                self._complain(f"{effect} {id} was done {times} times")
        for effect, ids in (("add", self._added), ("answer", self._answered)):
            for id in ids:
                if (effect, id) not in effects:
                    self._complain(f"{effect} {id} was acknowledged, and is lost")

    # Calls

    async def _add(self) -> None:
        id = self._id("add")
        reply = await self._web.ask("tools/call", name="add", arguments={"id": id})
        assert "result" in reply, f"{id}: {reply}"
        assert reply["result"]["content"][0]["text"] == id, reply
        self._added.append(id)
        self._acknowledge("call")

    async def _count(self) -> None:
        """Count in a session: a number that was acknowledged is never there again."""
        session, last, lost = await self._web.open(), 0, 0
        for _ in range(5):
            try:
                reply = await session.ask("tools/call", name="count", arguments={})
            except Lost:
                lost += 1
                continue
            assert "result" in reply, f"count: {reply}"
            number = int(reply["result"]["content"][0]["text"])
            assert last < number <= last + 1 + lost, f"{number} after {last}, and {lost} lost responses"
            last, lost = number, 0
            self._acknowledge("call in a session")

    # Streams

    async def _steps(self) -> None:
        """Call a tool that reports its progress, and resume its response elsewhere."""
        id, number = self._id("steps"), self._random.randrange(3, 20)
        session, seen = await self._web.open(), list[int]()

        def take(message: Any) -> bool:
            if message is not None and "method" in message:
                seen.append(message["params"]["progress"])
            return message is not None and "method" not in message

        ended = await self._follow(
            session, session.stream("tools/call", name="steps", arguments={"id": id, "number": number}), take
        )
        assert seen == list(range(1, len(seen) + 1)), f"{id}: progress {seen}"
        if ended:
            assert len(seen) == number, f"{id}: progress {seen} of {number}"
            self._acknowledge("stream")
        else:
            runner = self._runner(id)
            assert not runner or self._is_gone(runner), f"{id}: no response, though {runner} runs"

    async def _follow(self, session: Session, opened: Any, take: Callable[[Any], bool]) -> bool:
        """Read a response, and resume it after each break, also on purpose, until ``take`` returns True for a message.

        Returns False if the response ended without that.
        """
        last, opening, patience = "", opened, 3
        while True:
            fresh = False
            try:
                async with opening as response:
                    if response.content_type == "application/json":
                        return take(await response.json())
                    stream = Stream(response)
                    stream.last = last
                    breaks = self._random.randrange(1, 12)
                    async for message in stream.events():
                        fresh, last = True, stream.last
                        if take(message):
                            return True
                        breaks -= 1
                        if not breaks:
                            break
                    last = stream.last
            except Lost:
                fresh = True
                if not last:
                    raise
                await asyncio.sleep(0.05)
            if not last:
                raise Lost("the stream ended before its first event")
            if not fresh:
                patience -= 1
                if not patience:
                    return False
                await asyncio.sleep(0.2)
            opening = session.listen(last)

    # Questions

    async def _greet(self) -> None:
        """Answer the request of a handler, on any replica, and twice."""
        id, session = self._id("greet"), await self._web.open()
        questions, replies = list[Any](), list[str]()

        def ask(message: Any) -> bool:
            if message is not None and "method" in message:
                questions.append(message)
            elif message is not None:
                replies.append(message["result"]["content"][0]["text"])
            return message is not None

        opened = session.stream("tools/call", name="greet", arguments={"id": id})
        last, accepted = "", False
        async with opened as response:
            stream = Stream(response)
            async for message in stream.events():
                last = stream.last
                if ask(message):
                    break
            if not questions:
                raise Lost("the stream ended before its question")
            if self._random.random() < 0.5:
                stream.close()
            (name,) = questions[0]["params"]["requestedSchema"]["properties"]
            answer = {
                "jsonrpc": "2.0",
                "id": questions[0]["id"],
                "result": {"action": "accept", "content": {name: "Ann"}},
            }
            for _ in range(2):
                with self._may_be_lost():
                    await session.post(answer)
                    accepted = True
        if accepted:
            self._acknowledge("answer")
        with self._may_be_lost():
            if not await self._follow(session, session.listen(last), lambda found: ask(found) and bool(replies)):
                runner = self._runner(id)
                assert not accepted or self._is_gone(runner), f"{id}: no reply to the answer, though {runner} runs"
                return
            assert replies == ["Hello Ann"], f"{id}: {replies}"
            self._answered.append(id)

    async def _rounds(self) -> None:
        """Answer a stateless request by its ``requestState``, twice at the same time."""
        id = self._id("rounds")
        params = {"name": "greet", "arguments": {"id": id}}
        asked = (await self._web.ask("tools/call", **params))["result"]
        ((key, question),) = asked["inputRequests"].items()
        (name,) = question["params"]["requestedSchema"]["properties"]
        given = {key: {"action": "accept", "content": {name: "Ann"}}}

        async def answer() -> str | None:
            with self._may_be_lost():
                reply = await self._web.ask(
                    "tools/call", **params, inputResponses=given, requestState=asked["requestState"]
                )
                return str(reply["result"]["content"][0]["text"]) if "result" in reply else None
            return None

        replies = await asyncio.gather(answer(), answer())
        if "Hello Ann" in replies:
            self._answered.append(id)
            self._acknowledge("requestState")

    # Tasks

    async def _jobs(self) -> None:
        """Have a tool run as a task, and ask for its status until it is over."""
        id = self._id("job")
        arguments = {"id": id, "seconds": self._random.uniform(0, 1)}
        created = (await self._web.ask("tools/call", name="job", arguments=arguments))["result"]
        task = created["taskId"]
        self._acknowledge("task")
        if self._random.random() < 0.3:
            with self._may_be_lost():
                await self._web.ask("tools/call", name="add", arguments={"id": self._id("add")})
                await self._web.ask("tasks/cancel", taskId=task)
        async with asyncio.timeout(PATIENCE):
            while True:
                with self._may_be_lost():
                    reply = await self._web.ask("tasks/get", taskId=task)
                    assert "result" in reply, f"{id}: {reply}"
                    if reply["result"]["status"] not in ("working", "input_required"):
                        break
                await asyncio.sleep(0.1)
        again = (await self._insist(self._web, "tasks/get", taskId=task))["result"]
        assert again["status"] == reply["result"]["status"], f"{id}: {again} after {reply}"
        if again["status"] == "completed":
            assert again["result"]["content"][0]["text"] == id, again
        self._check_task(id, again["status"], str(again.get("error")))

    @staticmethod
    async def _insist(client: Web | Session, method: str, **params: Any) -> Any:
        """Send a request until there is a response."""
        last: Lost | None = None
        try:
            async with asyncio.timeout(PATIENCE):
                while True:
                    try:
                        return await client.ask(method, **params)
                    except Lost as error:
                        last = error
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise TimeoutError(f"{method} has no response: {last}") from None

    def _check_task(self, id: str, status: str, error: str) -> None:
        runner = self._runner(id)
        if status == "completed":
            assert ("job", id, runner) in self._group.journal(), f"{id} is completed, but was not done"
        elif status == "failed":
            assert GONE in error, f"{id}: {error}"
            assert not runner or self._is_gone(runner), f"{id} has failed, though {runner} runs"
        else:
            assert status == "cancelled", f"{id}: {status}"

    async def _session_jobs(self) -> None:
        """Have a tool run as a task in a session, and wait for its result, on any replica."""
        id, session = self._id("job"), await self._web.open()
        arguments = {"id": id, "seconds": self._random.uniform(0, 1)}
        created = (await session.ask("tools/call", name="job", arguments=arguments, task={}))["result"]
        self._acknowledge("task")
        reply = await self._insist(session, "tasks/result", taskId=created["task"]["taskId"])
        if "result" in reply:
            assert reply["result"]["content"][0]["text"] == id, reply
            self._check_task(id, "completed", "")
        else:
            self._check_task(id, "failed", str(reply["error"]))

    # Changes

    async def _change(self) -> None:
        """Change one resource after the other. A change that was acknowledged reaches all who listen."""
        for uri in URIS:
            if self._over.is_set():
                break
            with self._may_be_lost():
                await self._web.ask("tools/call", name="change", arguments={"uri": uri})
                self._changed.append(uri)
                self._acknowledge("change")
            await asyncio.sleep(self._random.uniform(0, 0.4))
        await self._over.wait()
        self._settled.set()

    def _look(self) -> set[str]:
        """Return the resources that have changed, as a client sees that reads them all."""
        return {id for effect, id, _ in self._group.journal() if effect == "change"}

    async def _hear(self, name: str, reading: Coroutine[Any, Any, None], seen: set[str]) -> None:
        """Wait until a client that listens has seen all changes."""
        reader = asyncio.create_task(reading)
        try:
            await self._settled.wait()
            end = asyncio.get_running_loop().time() + PATIENCE
            while missing := set(self._changed) - seen:
                if asyncio.get_running_loop().time() > end:
                    self._complain(f"{name}: changes of {sorted(missing)} were acknowledged, and not heard")
                    break
                await asyncio.sleep(0.05)
        finally:
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)
        if reader.done() and not reader.cancelled() and reader.exception() is not None:
            self._complain(f"{name}: {reader.exception()!r}")

    async def _listen(self) -> None:
        session, seen = await self._web.open(), set[str]()
        for uri in URIS:
            assert (await self._insist(session, "resources/subscribe", uri=uri))["result"] == {}
        await self._hear("a session", self._read(session, seen), seen)

    async def _read(self, session: Session, seen: set[str]) -> None:
        """Read the GET stream of a session, and resume it after each break."""
        last = ""
        while True:
            with self._may_be_lost():
                async with session.listen(last) as response:
                    stream = Stream(response)
                    async for message in stream.events():
                        if not last:
                            seen |= self._look()
                        last = stream.last or last
                        if message is not None and message["method"] == "notifications/resources/updated":
                            seen.add(message["params"]["uri"])
            await asyncio.sleep(0.02)

    async def _listen_stateless(self) -> None:
        seen = set[str]()
        await self._hear("a listen request", self._read_stateless(seen), seen)

    async def _read_stateless(self, seen: set[str]) -> None:
        """Read the stream of a listen request; after each break, read all resources as well."""
        while True:
            with self._may_be_lost():
                listening = self._web.stateless("subscriptions/listen", notifications={"resourceSubscriptions": URIS})
                async with self._web.request("POST", *listening) as response:
                    async for message in Stream(response).events():
                        if message["method"] == "notifications/resources/updated":
                            seen.add(message["params"]["uri"])
                        else:
                            assert message["method"] == "notifications/subscriptions/acknowledged", message
                            seen |= self._look()
            await asyncio.sleep(0.02)
