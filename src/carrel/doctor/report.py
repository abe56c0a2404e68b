"""Report of an examination: findings with severity, evidence and advice, measurements, and a score."""

from __future__ import annotations

from typing import Any

import msgspec

from carrel.doctor.rules import PENALTIES, RULES, Severity, link

__all__ = ["Finding", "Report"]

#: How many occurrences of a finding are kept, and how long each may be, in characters.
MAX_LOCATIONS = 10
MAX_LOCATION = 300


class Finding(msgspec.Struct, kw_only=True, rename="camel"):
    """A rule that the server breaks, and where."""

    rule: str
    severity: Severity
    title: str
    locations: list[str]
    count: int
    advice: str
    specification: str


class Report(msgspec.Struct, kw_only=True, rename="camel"):
    """Result of an examination. ``checks`` is the number of checks by kind; ``timing`` is in milliseconds."""

    target: str
    server: dict[str, Any] | None = None
    revision: str = ""
    transport: str = ""
    score: int = 100
    findings: list[Finding] = []
    checks: dict[str, int] = {}
    timing: dict[str, float] = {}
    notes: list[str] = []

    def check(self, kind: str, count: int = 1) -> None:
        """Count checks of a kind."""
        self.checks = {**self.checks, kind: self.checks.get(kind, 0) + count}

    def find(self, name: str, location: str) -> None:
        """Add a finding, or a location to one that there is already."""
        found = next((finding for finding in self.findings if finding.rule == name), None)
        if found is None:
            rule = RULES[name]
            found = Finding(
                rule=name,
                severity=rule.severity,
                title=rule.title,
                locations=[],
                count=0,
                advice=rule.advice,
                specification=link(rule, self.revision),
            )
            self.findings = [*self.findings, found]
        found.count += 1
        location = location if len(location) <= MAX_LOCATION else f"{location[: MAX_LOCATION - 1]}…"
        if location not in found.locations and len(found.locations) < MAX_LOCATIONS:
            found.locations.append(location)

    def finish(self) -> None:
        """Sort the findings by severity, and compute the score."""
        order = list(PENALTIES)
        self.findings = sorted(self.findings, key=lambda finding: order.index(finding.severity))
        self.score = max(0, 100 - sum(PENALTIES[finding.severity] for finding in self.findings))
