"""Broken stores, each of which the contract of shared state has to find."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import math

import pytest

from carrel.state.contract import StateContract
from carrel.state.memory import MemoryState, MemoryTables
from carrel.state.memory_bus import LetterBox
from carrel.state.memory_tables import Lifetimes
from carrel.state.records import NoticeBatch, Replay

pytestmark = pytest.mark.asyncio


def immortal(store, monkeypatch):
    monkeypatch.setattr(Lifetimes, "get", lambda self, key: getattr(self._entries.get(key), "value", None))


def renewed_by_replacing(store, monkeypatch):
    monkeypatch.setattr(Lifetimes, "replace", lambda self, key, value: self.put(key, value, 60))


def of_any_owner(store, monkeypatch):
    touch = store.sessions.touch

    async def open_touch(id, owner, ttl):
        entry = store.sessions._records.get(id)
        return None if entry is None else await touch(id, entry.owner, ttl)

    monkeypatch.setattr(store.sessions, "touch", open_touch)


def one_table_of_values(store, monkeypatch):
    put, get = store.sessions.put_value, store.sessions.get_value
    shared = []

    async def put_value(id, key, value, most):
        shared[:] = shared or [id]
        return await put(shared[0], key, value, most)

    monkeypatch.setattr(store.sessions, "put_value", put_value)
    monkeypatch.setattr(store.sessions, "get_value", lambda id, key: get(*shared, key))


def values_without_limit(store, monkeypatch):
    put = store.sessions.put_value
    monkeypatch.setattr(store.sessions, "put_value", lambda id, key, value, most: put(id, key, value, math.inf))


def one_log_for_all_sessions(store, monkeypatch):
    append, read = store.events.append, store.events.read
    monkeypatch.setattr(store.events, "append", lambda session, *rest: append("", *rest))
    monkeypatch.setattr(store.events, "read", lambda session, *rest: read("", *rest))


def events_newest_first(store, monkeypatch):
    read = store.events.read

    async def reversed_read(*arguments):
        replay = await read(*arguments)
        return replay and Replay(replay.events[::-1], replay.done)

    monkeypatch.setattr(store.events, "read", reversed_read)


def silent_gaps(store, monkeypatch):
    read = store.bus.read

    async def silent(after):
        batch = await read(after)
        return NoticeBatch(batch.position, batch.notices)

    monkeypatch.setattr(store.bus, "read", silent)


def last_status_stands(store, monkeypatch):
    async def save(record):
        found = store.tasks._records.get(record.id)
        if found is not None:
            store.tasks._records.replace(record.id, (found[0], record))
        return found is not None

    monkeypatch.setattr(store.tasks, "save", save)


def pages_by_index(store, monkeypatch):
    async def list(owner, after, limit):
        own = [found for id in store.tasks._owned.get(owner, ()) if (found := store.tasks._records.get(id))]
        return [(after + n + 1, record) for n, (_, record) in enumerate(own[after : after + limit])]

    monkeypatch.setattr(store.tasks, "list", list)


def steps_taken_again(store, monkeypatch):
    async def use(exchange, step, answers, ttl):
        return True

    monkeypatch.setattr(store.used, "use", use)


def check_then_act(store, monkeypatch):
    use = store.used.use

    async def slow(exchange, step, answers, ttl):
        known = store.used._steps.get(exchange)
        await asyncio.sleep(0)
        if known is None:
            store.used._steps.put(exchange, (step, answers, False), ttl)
            return True
        return await use(exchange, step, answers, ttl)

    monkeypatch.setattr(store.used, "use", slow)


def endless_buckets(store, monkeypatch):
    async def take(*arguments):
        return 0.0

    monkeypatch.setattr(store.quotas, "take", take)


def lost_letters(store, monkeypatch):
    monkeypatch.setattr(asyncio.Queue, "empty", lambda self: self._queue.clear() or True)


def letters_to_the_dead(store, monkeypatch):
    class Boxes(dict):
        def pop(self, *arguments):
            return None

    store.boxes = Boxes()


def endless_bus(store, monkeypatch):
    store.bus._size = math.inf


def endless_leases(store, monkeypatch):
    monkeypatch.setattr(store, "renew", lambda slot, lease: True)


def leases_found_again(store, monkeypatch):
    store.renew = lambda slot, lease: store.hold(slot, lease) or True
    store.hold = lambda slot, lease: (
        store.boxes.setdefault(slot, LetterBox()),
        store._leases.update({slot: store._clock() + lease}),
    )[:0]


def quiet_losses(store, monkeypatch):
    store.release = lambda slot: (store._leases.pop(slot, None), store.boxes.pop(slot, None))


def one_slot_for_all(store, monkeypatch):
    store.take_slot = lambda: 0


def locks_for_all(store, monkeypatch):
    acquire = store.acquire
    store.acquire = lambda name, slot, ttl: acquire(f"{name} {slot}", slot, ttl)


def endless_locks(store, monkeypatch):
    acquire = store.acquire
    store.acquire = lambda name, slot, ttl: acquire(name, slot, math.inf)


def locks_of_the_dead(store, monkeypatch):
    acquire = store.acquire

    def acquire_of_the_living(name, slot, ttl):
        holder, until = store.locks.get(name, (None, 0.0))
        return holder if until > store._clock() and holder.slot != slot else acquire(name, slot, ttl)

    store.acquire = acquire_of_the_living


BROKEN = {
    locks_for_all: "holds_a_lock",
    endless_locks: "in_its_lifetime",
    locks_of_the_dead: "has_gone",
    endless_leases: "lease",
    leases_found_again: "lease",
    quiet_losses: "not_renewed",
    one_slot_for_all: "slot",
    immortal: "lifetime",
    renewed_by_replacing: "replaced",
    of_any_owner: "owner_only",
    one_table_of_values: "values_belong",
    values_without_limit: "so_many_bytes",
    one_log_for_all_sessions: "streams_of_another",
    events_newest_first: "in_order_after",
    silent_gaps: "gap",
    endless_bus: "gap",
    last_status_stands: "first_terminal",
    pages_by_index: "pages",
    steps_taken_again: "taken_once",
    check_then_act: "taken_once",
    endless_buckets: "bucket",
    lost_letters: "letters_reach",
    letters_to_the_dead: "without_a_replica",
}


class Contract(StateContract):
    def __init__(self):
        self.now = 0.0
        self.store = MemoryTables(clock=lambda: self.now)

    async def join(self):
        state = MemoryState(self.store)
        await state.start()
        return state

    async def join_with_lease(self):
        state = MemoryState(self.store, lease=5.0)
        await state.start()
        return state

    async def pass_time(self, seconds):
        self.now += seconds


@pytest.mark.parametrize("broken", [None, *BROKEN], ids=lambda broken: getattr(broken, "__name__", "sound"))
async def test_the_contract_finds_what_is_broken(broken, monkeypatch):
    monkeypatch.setattr("carrel.state.contract.TIMEOUT", 0.2)
    failed = []
    for name, test in inspect.getmembers(StateContract, inspect.iscoroutinefunction):
        if not name.startswith("test_"):
            continue
        contract = Contract()
        if broken is not None:
            broken(contract.store, monkeypatch)
        replicas = await contract.join(), await contract.join()
        try:
            await (test(contract, replicas) if "replicas" in inspect.signature(test).parameters else test(contract))
        except (AssertionError, TimeoutError):
            failed.append(name)
        for state in replicas:
            with contextlib.suppress(KeyError):
                await contract.leave(state)
    assert bool(failed) == (broken is not None)
    assert broken is None or any(BROKEN[broken] in name for name in failed), failed
