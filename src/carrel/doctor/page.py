"""HTML page of a report: one self-contained file, without scripts."""

from __future__ import annotations

from html import escape

from carrel.doctor.report import Finding, Report

__all__ = ["page_of"]

STYLE = """\
:root {
  color-scheme: light dark; --line: #8884; --error: #c62828; --warning: #b26a00; --advice: #1565c0; --good: #2e7d32
}
body { font: 16px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.4rem } h2 { font-size: 1.1rem; margin: 0 }
.score { font-size: 3.5rem; font-weight: 700; line-height: 1 } .score small { font-size: 1.2rem; font-weight: 400 }
table { border-collapse: collapse } td { padding: .15rem 1.2rem .15rem 0; vertical-align: top }
section { border: 1px solid var(--line); border-left: .4rem solid;
  border-radius: .3rem; padding: .8rem 1rem; margin: 1rem 0 }
section.error { border-left-color: var(--error) } section.warning { border-left-color: var(--warning) }
section.advice { border-left-color: var(--advice) } .good { color: var(--good) } .error b { color: var(--error) }
.warning b { color: var(--warning) } .advice b { color: var(--advice) }
code { font-size: .85rem; overflow-wrap: anywhere } ul { padding-left: 1.2rem; margin: .4rem 0 }
"""


def page_of(report: Report) -> str:
    """Return the page of a report. All text of the server is escaped."""
    server = report.server or {}
    title = f"{server.get('name', report.target)} {server.get('version', '')}".strip()
    facts = {"target": report.target, "revision": report.revision, "transport": report.transport}
    facts |= {name: f"{value:g} ms" for name, value in report.timing.items()}
    facts |= {"checked": ", ".join(f"{count} {kind}" for kind, count in report.checks.items())}
    rows = "".join(f"<tr><td>{escape(name)}</td><td>{escape(str(value))}</td></tr>" for name, value in facts.items())
    found = "".join(section_of(finding) for finding in report.findings)
    notes = "".join(f"<p>{escape(note)}</p>" for note in report.notes)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}: {report.score} of 100</title><style>{STYLE}</style></head><body>"
        f'<h1>{escape(title)}</h1><p class="score">{report.score}<small> of 100</small></p><table>{rows}</table>'
        f"{found or '<p class=good>Nothing is found wrong.</p>'}{notes}</body></html>\n"
    )


def section_of(finding: Finding) -> str:
    """Return the part of the page about a finding."""
    locations = "".join(f"<li><code>{escape(location)}</code></li>" for location in finding.locations)
    more = f"<p>and {finding.count - len(finding.locations)} more</p>" if finding.count > len(finding.locations) else ""
    link = escape(finding.specification)
    return (
        f'<section class="{finding.severity}"><h2><b>{finding.severity}</b> {escape(finding.title)}</h2>'
        f"<ul>{locations}</ul>{more}<p>{escape(finding.advice)} "
        f'<a href="{link}">The specification</a></p></section>'
    )
