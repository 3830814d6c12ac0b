"""A page as a tree of elements: values, which a browser makes nodes of one by one.

No text of it is ever read as HTML, neither here nor in the browser: so a table that is called ``<script>`` is shown
with that name, wherever it stands.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from xml.etree import ElementTree


class Element(NamedTuple):
    """An element: its tag, its attributes, and what is in it, texts and elements."""

    tag: str
    attributes: dict[str, str]
    children: tuple[Element | str, ...]

    def to_plain(self) -> list[Any]:
        """As JSON has it: ``[tag, attributes, children]``, and a text as itself."""
        children = [one if isinstance(one, str) else one.to_plain() for one in self.children]
        return [self.tag, self.attributes, children]

    @property
    def text(self) -> str:
        """All texts in it, one after the other."""
        return "".join(one if isinstance(one, str) else one.text for one in self.children)


def element(tag: str, *children: Element | str | None, **attributes: str | None) -> Element:
    """An element; what is None is left out. ``class_`` is written for ``class``, and ``aria_label`` for ``aria-label``.

    >>> element("p", "a < b", None, class_="bad", id=None).to_plain()
    ['p', {'class': 'bad'}, ['a < b']]
    """
    named = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items() if value is not None}
    return Element(tag, named, tuple(one for one in children if one is not None))


def element_of_svg(svg: str) -> Element:
    """A drawing of :mod:`cdcv2.viz` as an element, without its style sheet: the page has that."""
    return _of_xml(ElementTree.fromstring(svg))


def _of_xml(node: ElementTree.Element) -> Element:
    children: list[Element | str] = [node.text] if node.text else []
    for child in node:
        tag = child.tag.rpartition("}")[2]
        children += [] if tag == "style" else [_of_xml(child)]
        children += [child.tail] if child.tail else []
    return Element(node.tag.rpartition("}")[2], dict(node.attrib), tuple(children))
