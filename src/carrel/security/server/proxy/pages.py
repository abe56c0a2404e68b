"""Web pages of the OAuth proxy: consent and errors, without scripts, and protected against framing."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping
from hashlib import sha256
from html import escape

from carrel.transports.server.route import HTTPResponse

__all__ = ["consent_page", "error_page", "redirect"]

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 34em; margin: 3em auto; padding: 0 1em; color: #1c1c1c; }
dl { border: 1px solid #ccc; border-radius: 6px; padding: 1em; } dt { color: #555; } dd { margin: 0 0 .6em;
overflow-wrap: anywhere; font-weight: 600; } .warning { border-left: 4px solid #b45309; padding-left: .8em; }
button { font: inherit; padding: .5em 1.4em; margin-right: .6em; border-radius: 6px; border: 1px solid #888; }
"""

#: Without form-action: browsers apply it to the redirects that follow the form, which lead to the upstream.
SECURITY = (
    f"default-src 'none'; style-src 'sha256-{b64encode(sha256(STYLE.encode()).digest()).decode()}'; "
    "base-uri 'none'; frame-ancestors 'none'"
)

#: The referrer policy keeps the Origin header of the form, which is checked.
HEADERS = (
    ("cache-control", "no-store"),
    ("content-security-policy", SECURITY),
    ("referrer-policy", "same-origin"),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
)


def page(status: int, title: str, body: str, cookies: Iterable[str] = ()) -> HTTPResponse:
    """Return a page; ``body`` is HTML."""
    text = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head>'
        f"<body><h1>{escape(title)}</h1>{body}</body></html>"
    )
    headers = [("content-type", "text/html; charset=utf-8"), *HEADERS, *(("set-cookie", one) for one in cookies)]
    return HTTPResponse(status, headers, text)


def error_page(status: int, message: str, back: str | None = None) -> HTTPResponse:
    """Return an error page, with a link back to the application if its redirect URI is known to be its own."""
    link = "" if back is None else f'<p><a href="{escape(back)}">Return to the application</a></p>'
    return page(status, "Login not possible", f"<p>{escape(message)}</p>{link}")


def consent_page(facts: Mapping[str, str], form: str, upstream: str, cookie: str, *, local: bool) -> HTTPResponse:
    """Return the consent page, which asks the user whether an application may act on their behalf.

    ``facts`` are shown unchanged; ``form`` is the hidden value of the form; ``local`` adds a warning that any program
    on the user's machine may receive a loopback redirect.
    """
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts.items())
    warning = (
        '<p class="warning">The application runs on your own machine. Go on only if you have just started the login '
        "there.</p>"
        if local
        else '<p class="warning">Go on only if you know this host, and have just started the login there.</p>'
    )
    body = (
        f"<p>An application asks for access in your name. The name is its own word; check where you are sent "
        f"back to.</p><dl>{rows}</dl>{warning}"
        f'<form method="post" action="consent"><input type="hidden" name="request" value="{escape(form)}">'
        f'<button name="decision" value="allow">Allow, and log in with {escape(upstream)}</button>'
        '<button name="decision" value="deny">Deny</button></form>'
    )
    return page(200, "Allow access?", body, [cookie])


def redirect(url: str, cookies: Iterable[str] = ()) -> HTTPResponse:
    """Return a redirect after which the browser does not send a form again."""
    headers = [
        ("location", url),
        ("cache-control", "no-store"),
        ("referrer-policy", "no-referrer"),
        *(("set-cookie", one) for one in cookies),
    ]
    return HTTPResponse(303, headers)
