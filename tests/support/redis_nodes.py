"""Several servers of Redis for tests: a master whose Sentinels appoint another one, and a cluster."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import redis

from support.database_servers import folder
from support.http_process import free_port
from support.redis_servers import TIMEOUT, RedisServer

__all__ = ["Cluster", "Node", "Service", "redis_cluster", "redis_service"]

SERVICE = "shop"
#: Milliseconds without a response after which a server counts as down.
DOWN_AFTER = 1000
SLOTS = 16384


def until(condition: Callable[[], object]) -> None:
    """Wait until a condition holds, which servers do not report."""
    end = time.monotonic() + TIMEOUT
    while True:
        try:
            if condition():
                return
        except redis.RedisError:
            pass
        assert time.monotonic() < end, "the servers of Redis do not agree"
        time.sleep(0.05)


class Node(RedisServer):
    """Server that listens on a TCP port."""

    def __init__(self, path: Path, *arguments: str, kind: str = "redis-server") -> None:
        path.mkdir()
        os.chmod(path, 0o777)
        self.port = free_port()
        super().__init__(kind, path, None, ("--port", str(self.port), "--bind", "127.0.0.1", *arguments))

    def client(self, **options: str) -> redis.Redis:
        """Return a client of this server."""
        return redis.Redis(unix_socket_path=str(self.socket), **options)


class Sentinel(Node):
    """Sentinel of a service. It needs a password itself: ``guard``."""

    def __init__(self, path: Path, master: Node) -> None:
        super().__init__(path)
        lines = [
            *(f"port {self.port}", f"unixsocket {self.socket}", f"dir {path}", "bind 127.0.0.1", "requirepass guard"),
            f"sentinel monitor {SERVICE} 127.0.0.1 {master.port} 2",
            f"sentinel down-after-milliseconds {SERVICE} {DOWN_AFTER}",
            f"sentinel failover-timeout {SERVICE} 3000",
            f"sentinel auth-pass {SERVICE} right",
            "sentinel sentinel-pass guard",
        ]
        (path / "sentinel.conf").write_text("\n".join(lines))
        os.chmod(path / "sentinel.conf", 0o666)
        self._command = [self._command[0], str(path / "sentinel.conf"), "--sentinel"]


class Service:
    """Two servers, and three Sentinels that appoint the master."""

    def __init__(self, path: Path) -> None:
        password = ("--requirepass", "right", "--masterauth", "right", "--repl-diskless-sync-delay", "0")
        first = Node(path / "first", *password)
        second = Node(path / "second", *password, "--replicaof", "127.0.0.1", str(first.port))
        self.servers = [first, second]
        self.sentinels = [Sentinel(path / f"sentinel-{number}", first) for number in range(3)]
        hosts = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self.sentinels)
        self.url = f"redis+sentinel://:right@{hosts}/{SERVICE}?sentinel_password=guard"

    def start(self) -> None:
        """Start all servers, and wait until the Sentinels know everything."""
        for node in (*self.servers, *self.sentinels):
            node.start()
        with self.servers[1].client(password="right") as client:
            until(lambda: client.info("replication")["master_link_status"] == "up")
        for sentinel in self.sentinels:
            with sentinel.client(password="guard") as client:
                until(lambda client=client: known(client) == (1, 2))  # type: ignore[misc]

    @property
    def master(self) -> Node:
        """The current master by the first Sentinel."""
        with self.sentinels[0].client(password="guard") as client:
            port = int(client.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)[1])
        return next(node for node in self.servers if node.port == port)

    def fail_over(self) -> None:
        """Make the replica the master, and wait until the old master is its replica."""
        old = self.master
        with self.sentinels[0].client(password="guard") as client:
            client.execute_command("SENTINEL", "FAILOVER", SERVICE)
        with old.client(password="right") as client:
            until(lambda: client.info("replication")["role"] == "slave")


def known(client: redis.Redis) -> tuple[int, int]:
    fields = client.execute_command("SENTINEL", "MASTER", SERVICE)
    found = fields if isinstance(fields, dict) else dict(zip(fields[::2], fields[1::2], strict=True))
    numbers = {(name.decode() if isinstance(name, bytes) else name): value for name, value in found.items()}
    return int(numbers["num-slaves"]), int(numbers["num-other-sentinels"])


@contextmanager
def redis_service() -> Iterator[Service]:
    """Run two servers and three Sentinels until the end of the block."""
    with folder() as path, ExitStack() as stack:
        os.chmod(path, 0o777)
        service = Service(path)
        for node in (*service.servers, *service.sentinels):
            stack.callback(node.stop)
        service.start()
        yield service


class Cluster:
    """Three masters, and a replica of each."""

    def __init__(self, path: Path) -> None:
        options = ("--cluster-enabled", "yes", "--cluster-node-timeout", str(DOWN_AFTER))
        options += ("--repl-diskless-sync-delay", "0", "--cluster-replica-validity-factor", "0")
        self.nodes: list[Node] = []
        for number in range(6):
            node = Node(path / f"node-{number}", *options)
            # The port of the bus is 10000 above the port by default, which may be too high.
            node._command += ["--cluster-port", str(free_port())]
            self.nodes.append(node)
        self.url = f"redis+cluster://127.0.0.1:{self.nodes[0].port}"

    def start(self) -> None:
        """Start all nodes, and wait until all of them know everything."""
        for node in self.nodes:
            node.start()
        masters, replicas = self.nodes[:3], self.nodes[3:]
        first = self.nodes[0]
        ids = [self.call(node, "CLUSTER MYID").decode() for node in self.nodes]
        for number, node in enumerate(masters):
            start, end = SLOTS * number // 3, SLOTS * (number + 1) // 3 - 1
            self.call(node, "CLUSTER ADDSLOTSRANGE", start, end)
        for node in self.nodes:
            self.call(node, "CLUSTER SET-CONFIG-EPOCH", self.nodes.index(node) + 1)
            self.call(first, "CLUSTER MEET", "127.0.0.1", node.port, int(node._command[-1]))
        for node in self.nodes:
            until(lambda node=node: all(id in self.call(node, "CLUSTER NODES").decode() for id in ids))  # type: ignore[misc]
        for number, node in enumerate(replicas):
            self.call(node, "CLUSTER REPLICATE", ids[number])
        for node in self.nodes:
            until(lambda node=node: b"cluster_state:ok" in self.call(node, "CLUSTER INFO"))  # type: ignore[misc]
            until(lambda node=node: self.call(node, "CLUSTER NODES").count(b" connected") == 6)  # type: ignore[misc]
        for node in replicas:
            with node.client() as client:
                until(lambda client=client: client.info("replication")["master_link_status"] == "up")  # type: ignore[misc]
        until(lambda: len(self.call(first, "CLUSTER SLOTS")[0]) == 4)

    @staticmethod
    def call(node: Node, command: str, *arguments: object) -> bytes:
        """Return the response of a node to a command."""
        with redis.Redis(unix_socket_path=str(node.socket)) as client:
            client.response_callbacks.clear()
            return client.execute_command(*command.split(), *arguments)  # type: ignore[no-any-return]

    def master_of(self, key: str) -> Node:
        """Return the node that has a key."""
        for node in self.nodes:
            try:
                with node.client() as client:
                    role = client.info("replication")["role"]
                    client.exists(key)
            except redis.RedisError:
                continue
            if role == "master":
                return node
        raise AssertionError(f"no node has {key}")

    def move(self, key: str, target: Node) -> None:
        """Move the hash slot of a key, with all its keys, to another master."""
        source = self.master_of(key)
        slot = self.call(source, "CLUSTER KEYSLOT", key)
        ids = {node: self.call(node, "CLUSTER MYID") for node in (source, target)}
        self.call(target, "CLUSTER SETSLOT", slot, "IMPORTING", ids[source])
        self.call(source, "CLUSTER SETSLOT", slot, "MIGRATING", ids[target])
        keys = self.call(source, "CLUSTER GETKEYSINSLOT", slot, 10_000)
        self.call(source, "MIGRATE", "127.0.0.1", target.port, "", 0, 60_000, "KEYS", *keys)
        for node in (target, source):
            self.call(node, "CLUSTER SETSLOT", slot, "NODE", ids[target])


@contextmanager
def redis_cluster() -> Iterator[Cluster]:
    """Run the nodes of a cluster until the end of the block."""
    with folder() as path, ExitStack() as stack:
        os.chmod(path, 0o777)
        cluster = Cluster(path)
        for node in cluster.nodes:
            stack.callback(node.stop)
        cluster.start()
        yield cluster
