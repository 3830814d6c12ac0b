"""SVG as text, by small code of our own: shapes with a class each, and texts that fit their room.

Letters are of one width, so where a text ends is known without a font. Colours are in one style sheet, for light and
dark; a picture asks for nothing from elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

from cdcv2.errors import UsageError

#: How wide a picture may be, in pixels, and is by default.
LEAST, MOST, USUAL = 360, 1600, 960
#: Height and width of a letter, of a line of text, and the space around, in pixels.
FONT, LETTER, LINE, EDGE = 12, 7.3, 18, 12
#: Kinds of lines, for several logs in one drawing.
KINDS = 6

LIGHT = {
    "ground": "#ffffff", "ink": "#1f2328", "faint": "#59636e", "line": "#d1d9e0", "fill": "#2f6fb3", "calm": "#dbe9f7",
    "good": "#1a7f37", "bad": "#c1121f", "mark": "#8250df",
}
DARK = {
    "ground": "#0d1117", "ink": "#e6edf3", "faint": "#9da7b1", "line": "#3d444d", "fill": "#58a6ff", "calm": "#1b2f47",
    "good": "#3fb950", "bad": "#ff7b72", "mark": "#bc8cff",
}
#: What XML has no letter for, and a name may have all the same.
_NO_LETTERS = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SERIES = ("fill", "mark", "good", "bad", "ink", "faint")


class Canvas:
    """A picture that is drawn from top to bottom; ``y`` is where the next thing goes.

    Raises UsageError for a width that is not from 360 to 1,600 pixels.
    """

    def __init__(self, width: int, title: str) -> None:
        if not LEAST <= width <= MOST:
            raise UsageError(f"a picture of {width} pixels: it is from {LEAST} to {MOST} wide")
        self.width, self.y = width, float(EDGE)
        self._title, self._shapes = title, list[str]()

    @property
    def room(self) -> float:
        """The width between the edges."""
        return self.width - 2 * EDGE

    def line_of_text(self, text: str, kind: str = "ink", indent: float = 0) -> None:
        """A text on a line of its own."""
        self.text(EDGE + indent, self.y + FONT, text, self.room - indent, kind)
        self.y += LINE

    def text(self, x: float, y: float, text: str, room: float, kind: str = "ink", anchor: str = "start") -> None:
        """A text whose feet are at ``y``; what is longer than its room is cut in the middle, and whole in its title."""
        shown = fitted(text, room)
        if shown:
            whole = "" if shown == text else f"<title>{written(text)}</title>"
            self._shapes.append(
                f'<text class="t-{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{written(shown)}{whole}</text>'
            )

    def box(self, x: float, y: float, width: float, height: float, kind: str, title: str = "") -> None:
        """A rectangle, with a text that shows when it is pointed at."""
        inside = f"<title>{written(title)}</title>" if title else ""
        self._shapes.append(
            f'<rect class="f-{kind}" x="{x:.1f}" y="{y:.1f}" width="{max(width, 1):.1f}" height="{max(height, 1):.1f}">'
            f"{inside}</rect>"
        )

    def path(self, points: Iterable[tuple[float, float]], kind: str) -> None:
        """A line through points."""
        self._shapes.append(
            f'<polyline class="s-{kind}" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}"/>'
        )

    def svg(self) -> str:
        """The whole picture."""
        height = self.y + EDGE
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="cdcv2" viewBox="0 0 {self.width} {height:.0f}" '
            f'width="{self.width}" height="{height:.0f}" role="img" aria-label="{written(self._title)}">'
            f"<title>{written(self._title)}</title><style>{STYLE}</style>"
            f'<rect class="f-ground" width="{self.width}" height="{height:.0f}"/>{"".join(self._shapes)}</svg>'
        )


class Axis:
    """Where whole numbers are between two edges."""

    def __init__(self, lower: int, upper: int, left: float, right: float) -> None:
        self.lower, self.upper, self.left, self.right = lower, max(upper, lower + 1), left, right

    def at(self, number: int) -> float:
        """The place of a number; of one that is not between, the edge."""
        share = (min(max(number, self.lower), self.upper) - self.lower) / (self.upper - self.lower)
        return self.left + share * (self.right - self.left)

    def ticks(self, canvas: Canvas, *, word: str = "") -> None:
        """Numbers below what was drawn, as many as there is room for."""
        room = self.right - self.left
        longest = max(len(str(self.lower)), len(str(self.upper))) * LETTER
        # The last number ends where its stroke is, and the one before it stands around its own.
        steps = max(1, min(int(room / (1.5 * longest + 2 * LETTER)), 8))
        size = -(-(self.upper - self.lower) // steps)
        numbers = [*range(self.lower, self.upper - size + 1, size), self.upper]
        for number in numbers:
            x = self.at(number)
            canvas.path([(x, canvas.y), (x, canvas.y + 4)], "line")
            anchor = "start" if number == numbers[0] else "end" if number == numbers[-1] else "middle"
            canvas.text(x, canvas.y + 4 + FONT, str(number), room, "faint", anchor)
        canvas.y += LINE + 4
        if word:
            canvas.line_of_text(word, "faint")


def written(text: str) -> str:
    """A text as XML has it; letters that XML does not have are shown as one that is not known.

    >>> written("a < b\x1f")
    'a &lt; b\ufffd'
    """
    return escape(_NO_LETTERS.sub("\ufffd", text))


def fitted(text: str, room: float) -> str:
    """As much of a text as has room, cut in the middle.

    >>> fitted("public.orders", 200), fitted("public.orders", 60)
    ('public.orders', 'publ…ers')
    """
    most = int(room / LETTER)
    if len(text) <= most:
        return text
    if most < 3:
        return ""
    return f"{text[:most // 2]}…{text[len(text) - (most - most // 2 - 1):]}"


def _rules(colours: dict[str, str]) -> str:
    rules = [f".cdcv2 .t-{name}{{fill:{colour}}}.cdcv2 .f-{name}{{fill:{colour}}}.cdcv2 .s-{name}{{stroke:{colour}}}"
             for name, colour in colours.items()]
    rules += [f".cdcv2 .s-series{number}{{stroke:{colours[name]}}}" for number, name in enumerate(_series(KINDS))]
    return "".join(rules)


def _series(count: int) -> Sequence[str]:
    return _SERIES[:count]


STYLE = (
    f".cdcv2 text{{font:{FONT}px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace}}"
    ".cdcv2 polyline{fill:none;stroke-width:1.5}.cdcv2 .s-mark{stroke-dasharray:4 3}"
    f"{_rules(LIGHT)}@media (prefers-color-scheme: dark){{{_rules(DARK)}}}"
)
