"""Figures as inline SVG: small, without inline styles, each with names of its own."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from bayes_grpo.views.svg import CROWD, STYLE, Pictures


def drawn(rows: int = 300) -> Figure:
    with rc_context(STYLE):
        figure = Figure(figsize=(8, 3), layout="constrained")
        left, right = figure.subplots(1, 2)
        x = np.arange(rows, dtype=float)
        left.plot(x, np.sin(x / 50.0), ".", color="#111827", alpha=0.7)
        left.fill_between(x, np.sin(x / 50.0) - 0.2, np.sin(x / 50.0) + 0.2, color="#1d4ed8", alpha=0.2)
        left.set_title("<b>&amp; 5 of 6", loc="left")
        right.bar(["a", "b"], [1.0, 2.0], color="#c2410c")
        figure.suptitle("a title that the page has in words")
    return figure


def test_a_figure_has_classes_in_place_of_styles_and_names_of_its_own():
    pictures = Pictures()
    with rc_context(STYLE):
        first, second = (pictures.whole(drawn()) for _ in range(2))
    root = ElementTree.fromstring(first)
    assert "a title that the page has in words" not in first
    assert "style" not in {name for e in root.iter() for name in e.attrib}
    assert [e for e in root.iter("text") if e.text == "a"]
    used = {c for e in root.iter() for c in e.get("class", "").split()}
    assert used == set(re.findall(r"\.(s\d+)\{", pictures.stylesheet()))
    ids = [{e.get("id") for e in ElementTree.fromstring(x).iter()} - {None} for x in (first, second)]
    assert not ids[0] & ids[1]
    pointed = {x for e in root.iter() for v in e.attrib.values() for x in re.findall(r"^#(.*)|url\(#(.*)\)", v)}
    assert {a or b for a, b in pointed} <= ids[0]


def test_a_crowd_of_dots_is_pixels():
    pictures = Pictures()
    with rc_context(STYLE):
        few, many = pictures.whole(drawn(CROWD)), pictures.whole(drawn(CROWD + 1))
    assert "<image" not in few
    assert "data:image/png;base64" in many
