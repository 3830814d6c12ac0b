"""The document of the page: one HTML text with its style and its script inside, and the headers that it is sent with.

It is the same for every pipeline and every client, and holds no data: the script asks for these, with the token.
"""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import NamedTuple

from cdcv2.viz.svg import DARK, LIGHT, STYLE

_DOCUMENT = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>cdcv2</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<a class="skip" href="#content">To the content</a>
<div class="bar" role="region" aria-label="Updates">
<p id="age">The page starts.</p>
<button id="pause" type="button" aria-pressed="false" hidden>Pause updates</button>
</div>
<p id="notice" class="notice" role="alert"></p>
<p id="verdict" class="quiet" role="status"></p>
<noscript><p>This page needs JavaScript. In a terminal, cdcv2 status shows the same.</p></noscript>
<main id="content" tabindex="-1">
<div id="status" hidden></div>
<form id="token-form" hidden>
<h1>cdcv2</h1>
<p>This page needs the token of <code>cdcv2 up</code>. In a terminal, <code>cdcv2 page PIPELINE.yaml</code> prints an
address that has it. Or paste the line of the token file, which is <code>api.token</code> in the state folder:</p>
<label for="token">Token</label>
<div>
<input id="token" type="password" autocomplete="off" spellcheck="false" required>
<button type="submit">Show the page</button>
</div>
</form>
</main>
<script>{script}</script>
</body>
</html>
"""


class PageDocument(NamedTuple):
    """The text, and the headers that state what a browser may do with it."""

    html: str
    headers: dict[str, str]


@cache
def page_document() -> PageDocument:
    """The document. Only the style and the script that are in it are applied and run; requests go to its own server
    alone, and no other page may show it in a frame.
    """
    style = f"{_colours(LIGHT)}@media (prefers-color-scheme: dark){{{_colours(DARK)}}}\n{STYLE}\n{_content('page.css')}"
    script = _content("page.js")
    policy = (
        f"default-src 'none'; script-src {_digest(script)}; style-src {_digest(style)}; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )
    return PageDocument(_DOCUMENT.format(style=style, script=script), {
        "Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
    })


def _colours(colours: dict[str, str]) -> str:
    """The colours of drawings, as names for the style sheet."""
    return f":root{{{''.join(f'--{name}:{colour};' for name, colour in colours.items())}}}"


def _content(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


def _digest(text: str) -> str:
    """A text as a policy names it."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
