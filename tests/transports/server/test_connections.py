"""The table of connections: who is admitted, and who makes room."""

import asyncio

from carrel import Limits
from carrel.transports.server.connections import PER_TURN, Connections


class Member:
    def __init__(self, group):
        self.group = group
        self.dropped = False
        self.checks = 0

    def drop(self):
        self.dropped = True

    def check(self, now):
        self.checks += 1


def table(maximum=10_000, **limits):
    return Connections(Limits(**limits), maximum)


def busy(table, group):
    member = Member(group)
    if not table.admit(member):
        return None
    table.busy(member)
    return member


def test_a_group_has_a_limit_of_its_own_and_others_are_left_alone():
    connections = table(max_connections_per_address=2)
    other = Member("b")
    assert connections.admit(other)
    first, second = busy(connections, "a"), busy(connections, "a")
    assert busy(connections, "a") is None
    connections.idle(second)
    connections.idle(first)
    assert connections.admit(Member("a"))
    assert (first.dropped, second.dropped, other.dropped) == (False, True, False)
    assert len(connections) == 3


def test_when_all_are_taken_only_the_own_group_makes_room():
    connections = table(max_connections=2, max_connections_per_address=2)
    idle = Member("a")
    assert connections.admit(idle)
    assert busy(connections, "b")
    assert not connections.admit(Member("c"))
    assert connections.admit(Member("a"))
    assert idle.dropped


def test_behind_a_proxy_only_the_limit_of_all_connections_holds():
    connections = table(max_connections=4, max_connections_per_address=1)
    members = [Member("") for _ in range(4)]
    for member in members:
        assert connections.admit(member, shared=True)
        connections.busy(member)
    assert not connections.admit(Member(""), shared=True)


def test_where_descriptors_are_few_an_address_keeps_its_share():
    connections = table(maximum=100)
    assert (connections.maximum, connections.per_group) == (100, 25)
    assert table(maximum=1).per_group == 1


def test_a_connection_that_is_gone_counts_no_more():
    connections = table(max_connections_per_address=1)
    member = busy(connections, "a")
    connections.remove(member)
    connections.remove(member)
    connections.idle(member)
    connections.busy(member)
    assert len(connections) == 0
    assert connections.admit(Member("a"))


async def test_connections_are_checked_until_it_stops():
    connections = table(header_timeout=0.02)
    member = Member("a")
    connections.admit(member)
    connections.watch()
    async with asyncio.timeout(60):
        while member.checks < 3:
            await asyncio.sleep(0.005)
    connections.stop()
    connections.stop()


async def test_other_tasks_run_while_thousands_of_connections_are_checked():
    connections = table(header_timeout=0.02, max_connections_per_address=10_000)
    members = [busy(connections, "a") for _ in range(3 * PER_TURN)]
    checked: list[int] = []

    async def count() -> None:
        while not members[-1].checks:
            if members[0].checks:
                checked.append(sum(member.checks for member in members))
            await asyncio.sleep(0)

    connections.watch()
    await asyncio.wait_for(count(), 60)
    connections.stop()
    assert checked == [PER_TURN, 2 * PER_TURN]


async def test_a_connection_that_is_closed_during_a_check_is_not_checked():
    connections = table(header_timeout=0.02, max_connections_per_address=10_000)
    first, *_, last = [busy(connections, "a") for _ in range(2 * PER_TURN)]
    connections.watch()
    async with asyncio.timeout(60):
        while not first.checks:
            await asyncio.sleep(0)
    connections.remove(last)
    async with asyncio.timeout(60):
        while first.checks < 2:
            await asyncio.sleep(0)
    connections.stop()
    assert not last.checks
