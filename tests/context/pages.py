"""One page in several formats."""

from __future__ import annotations

__all__ = ["FORMATS", "TEXT"]

MARKDOWN = """# Green tea

Green tea is brewed at [eighty degrees](https://example.org/degrees "warm") for *two* minutes, as `brew()` says; see
[the pot][pot] and <https://example.org/tea>.

| tea | minutes |
| --- | --- |
| green | 2 |
| black | 4 |

- Warm the pot first with hot water, then pour the water away.
- Use `one spoon` for each cup \\_and\\_ one for the pot.

```sh
brew --minutes 2 --tea green
```

[pot]: pot.md
"""
HTML = """<html><head><title>Green tea - Handbook</title></head><body>
<nav><a href="index.html">Home</a> <a href="teas.html">Teas</a></nav>
<h1>Green tea<a class="headerlink" href="#green-tea">¶</a></h1>
<p>Green tea is brewed at <a href="https://example.org/degrees" title="warm">eighty degrees</a> for <em>two</em>
minutes, as <code>brew()</code> says; see <a href="pot.html">the pot</a> and <a href="https://example.org/tea">
https://example.org/tea</a>.</p>
<table><tr><th>tea</th><th>minutes</th></tr><tr><td>green</td><td>2</td></tr><tr><td>black</td><td>4</td></tr></table>
<ul><li>Warm the pot first with hot water, then pour the water away.</li>
<li>Use <code>one spoon</code> for each cup _and_ one for the pot.</li></ul>
<pre><code class="language-sh">brew --minutes 2 --tea green
</code></pre><footer>Copyright 2024 by the authors</footer></body></html>
"""
RST = """Green tea
=========

Green tea is brewed at `eighty degrees <https://example.org/degrees>`_ for *two* minutes, as :func:`brew()` says; see
:doc:`the pot <pot>` and https://example.org/tea.

====== =======
tea    minutes
====== =======
green  2
black  4
====== =======

- Warm the pot first with hot water, then pour the water away.
- Use ``one spoon`` for each cup _and_ one for the pot.

.. code-block:: sh

   brew --minutes 2 --tea green
"""
TEXT = """Green tea

Green tea is brewed at eighty degrees for two minutes, as brew() says; see the pot and https://example.org/tea.

tea minutes
green 2
black 4

* Warm the pot first with hot water, then pour the water away.
* Use one spoon for each cup and one for the pot.

brew --minutes 2 --tea green
"""
FORMATS = {"md": MARKDOWN, "html": HTML, "rst": RST, "txt": TEXT}
