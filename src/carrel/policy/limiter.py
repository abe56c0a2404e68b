"""Limiter: middleware that refuses requests beyond the limits of rules, as ``[[limits.rules]]`` of ``carrel.toml`` has
them.

Requests and bytes are counted in token buckets that replicas share, concurrent calls in each replica.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from carrel.catalog.access import NAME_VERBS
from carrel.catalog.rules import Rules
from carrel.errors import TooManyRequests
from carrel.log import Log
from carrel.policy.policy import EVERYBODY
from carrel.uri.parse import canonical

if TYPE_CHECKING:
    from carrel.catalog.rules import Rule
    from carrel.protocol.principal import Principal
    from carrel.protocol.server import Call
    from carrel.state.interfaces import Quotas

__all__ = ["Admission", "LimitRule", "Limiter", "Rate"]

log = Log("carrel.policy")

#: Seconds after which a client may try again if its calls at a time are limited: the end of a call is unknown.
BUSY = 1.0
#: Seconds between two log messages about the requests that a rule has refused.
QUIET = 60.0
#: Part of a bucket by which its content may be known wrongly.
ROUNDING = 1e-6
#: Debts of bytes that are kept. If there are more, the debts that are paid are forgotten.
MAX_DEBTS = 10_000


class Rate(NamedTuple):
    """Rate: ``amount`` in ``seconds`` on average, and at most ``burst`` at once."""

    amount: float
    seconds: float
    burst: float

    @property
    def per_second(self) -> float:
        """The amount in one second."""
        return self.amount / self.seconds


class LimitRule(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of requests: their rate, the rate of the bytes of their responses, and how many are handled at a time.

    The rule is for requests of callers with one of the ``roles``, or of all callers; with ``patterns``, for requests
    about a tool, prompt or resource that matches one of them. Requests are counted for each client, for each address,
    or for all together. ``where`` is the line of the rule.
    """

    requests: Rate | None = None
    bytes: Rate | None = None
    concurrent: int | None = None
    roles: frozenset[str] = frozenset({EVERYBODY})
    patterns: tuple[Rule, ...] = ()
    per: Literal["client", "address", "all"] = "client"
    where: str = ""


class _Compiled:
    """Limit rule with its compiled patterns. ``id`` is equal in all replicas with the same rule."""

    def __init__(self, rule: LimitRule) -> None:
        self.rule = rule
        self.view = Rules(rule.patterns).view() if rule.patterns else None
        patterns = [(each.pattern, sorted(each.verbs)) for each in rule.patterns]
        row = (rule.requests, rule.bytes, sorted(rule.roles), rule.per, patterns)
        self.id = blake2b(msgspec.json.encode(row), digest_size=9).hexdigest()

    def matches(self, call: Call) -> bool:
        """Return whether a request is about a tool, prompt or resource that the rule is for."""
        if self.view is None:
            return True
        verb = call.request.verb
        if verb is None:
            return False
        targets = call.request.find_targets(call.params)
        if verb not in NAME_VERBS:
            targets = [*targets, *map(canonical, targets)]
        return any(self.view.allows(verb, each) for each in targets)


class Admission:
    """Admission of a request: the rules that count it, each with the name of its bucket."""

    __slots__ = ("_limiter", "counted", "held")

    def __init__(self, limiter: Limiter) -> None:
        self._limiter = limiter
        self.counted: list[tuple[LimitRule, str]] = []
        """Rules that count the bytes of the response."""
        self.held: list[str] = []
        """Buckets in which the request is one of the calls at a time."""

    def close(self) -> None:
        """End the request."""
        for name in self.held:
            self._limiter.busy[name] -= 1
            if not self._limiter.busy[name]:
                del self._limiter.busy[name]
        self.held = []


class Limiter:
    """Limits of the requests of a server, by rules. A request must be within the limits of all rules that apply to it.

    Args:
        rules: the rules.
        quotas: returns the token buckets, which replicas share.
        roles_of: returns the roles of a caller.
        clock: returns a time in seconds.
    """

    def __init__(
        self,
        rules: Sequence[LimitRule],
        quotas: Callable[[], Quotas],
        roles_of: Callable[[Principal | None], frozenset[str]] = lambda _: frozenset(),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._quotas = quotas
        self._roles_of = roles_of
        self._clock = clock
        self.busy: Counter[str] = Counter()
        """Concurrent calls, by bucket."""
        self.refused: Counter[str] = Counter()
        """Requests that were refused, by the line of the rule."""
        self._debts: dict[str, tuple[float, float, float]] = {}
        """Bytes that were sent beyond a bucket, when, and the bytes that the bucket gains in a second."""
        self._logged: dict[str, tuple[float, int]] = {}
        self.set_rules(rules)

    def set_rules(self, rules: Sequence[LimitRule]) -> None:
        """Replace the rules, from the next request on. Rules that stay the same keep their counts."""
        self._rules = [_Compiled(rule) for rule in sorted(rules, key=lambda rule: rule.per == "all")]

    def _applying(self, call: Call) -> Iterator[tuple[LimitRule, str]]:
        """Yield the rules that apply to a request, each with the name of its bucket.

        Rules for all callers together come last: a request that the caller's limits refuse takes nothing from others.
        """
        roles: frozenset[str] | None = None
        for each in self._rules:
            rule = each.rule
            if EVERYBODY not in rule.roles:
                roles = self._roles_of(call.principal) if roles is None else roles
                if rule.roles.isdisjoint(roles):
                    continue
            if each.matches(call):
                yield rule, f"limit {each.id} {self._counted_for(rule, call)}"

    @staticmethod
    def _counted_for(rule: LimitRule, call: Call) -> str:
        if rule.per == "all":
            return ""
        if rule.per == "address" or call.principal is None:
            return f"address {call.client.address}" if call.client.address else f"client {call.client.key}"
        return f"user {call.principal.user}"

    async def admit(self, call: Call) -> Admission:
        """Count a request. Close the admission when the request has been handled.

        Raises:
            TooManyRequests: the request is beyond a limit. Rules before the one that refuses have counted it.
        """
        admission = Admission(self)
        try:
            for rule, name in self._applying(call):
                if rule.concurrent is not None and not call.request.endless:
                    if self.busy[name] >= rule.concurrent:
                        raise self._refuse(rule, f"{rule.concurrent} at a time", BUSY)
                    self.busy[name] += 1
                    admission.held.append(name)
                if rule.bytes is not None:
                    await self._check_bytes(rule, rule.bytes, f"{name} bytes")
                    admission.counted.append((rule, f"{name} bytes"))
                if rule.requests is not None:
                    wait = await self._take(name, 1, rule.requests)
                    if wait > 0:
                        raise self._refuse(rule, _words(rule.requests, "requests"), wait)
        except BaseException:
            admission.close()
            raise
        return admission

    async def spend(self, admission: Admission, size: int) -> None:
        """Count the bytes of a response. Bytes beyond the limit are a debt; requests are refused until it is paid."""
        size = max(size - 1, 0)  # the admission has taken one
        for rule, name in admission.counted:
            rate = rule.bytes
            assert rate is not None
            part = min(float(size), rate.burst)
            wait = await self._take(name, part, rate)
            left = part
            if wait > 0:  # the bucket has less: empty it
                left = max(0.0, part - wait * rate.per_second - ROUNDING * rate.burst)
                await self._take(name, left, rate)
            if size > left:
                self._owe(name, size - left, rate)

    def _owe(self, name: str, size: float, rate: Rate) -> None:
        now = self._clock()
        known = self._debts.pop(name, None)
        before = 0.0 if known is None else max(0.0, known[0] - (now - known[1]) * known[2])
        self._debts[name] = (before + size, now, rate.per_second)
        if len(self._debts) > MAX_DEBTS:
            self._debts = {name: debt for name, debt in self._debts.items() if debt[0] > (now - debt[1]) * debt[2]}

    async def _check_bytes(self, rule: LimitRule, rate: Rate, name: str) -> None:
        """Check that a bucket of bytes is not empty, and that no debt is left.

        Raises:
            TooManyRequests: it is empty.
        """
        debt = self._debts.get(name)
        wait = 0.0
        if debt is not None:
            wait = debt[0] / debt[2] - (self._clock() - debt[1])
            if wait <= 0:
                self._debts.pop(name, None)
                since = -wait * rate.per_second  # the bucket has filled up meanwhile; it keeps what came since
                paid = min(debt[0] + since, rate.burst) - min(since, rate.burst) - ROUNDING * rate.burst
                await self._take(name, max(paid, 0.0), rate)
                wait = 0.0
        if wait <= 0:
            wait = await self._take(name, 1, rate)
        if wait > 0:
            raise self._refuse(rule, _words(rate, "bytes"), wait)

    async def _take(self, name: str, amount: float, rate: Rate) -> float:
        return await self._quotas().take(name, amount, rate.burst, rate.burst / rate.per_second)

    def _refuse(self, rule: LimitRule, limit: str, wait: float) -> TooManyRequests:
        """Count a refusal, log it from time to time, and return the error."""
        self.refused[rule.where] += 1
        now, count = self._clock(), self.refused[rule.where]
        logged = self._logged.get(rule.where)
        if logged is None or now - logged[0] >= QUIET:
            since = count - (0 if logged is None else logged[1])
            unit = "request" if since == 1 else "requests"
            log.warning("%s: %d %s refused: at most %s", rule.where, since, unit, limit)
            self._logged[rule.where] = (now, count)
        return TooManyRequests(f"Too many requests: at most {limit}", wait)


def _words(rate: Rate, unit: str) -> str:
    known = {1.0: "second", 60.0: "minute", 3600.0: "hour", 86400.0: "day"}
    return f"{rate.amount:,.0f} {unit} per {known.get(rate.seconds, f'{rate.seconds:g} seconds')}"
