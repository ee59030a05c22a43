"""Figures as inline SVG: small, in the colours of the page, and told apart."""

from __future__ import annotations

import re
from io import StringIO
from xml.etree import ElementTree

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from bayes_grpo.views.svg import CROWD, STYLE, Pictures


def drawn(rows: int = 400) -> Figure:
    with rc_context(STYLE):
        figure = Figure(figsize=(8, 3), layout="constrained")
        left, right = figure.subplots(1, 2)
        x = np.arange(rows, dtype=float)
        left.plot(x, np.sin(x / 50.0), ".", color="#111827", alpha=0.7)
        left.fill_between(x, np.sin(x / 50.0) - 0.2, np.sin(x / 50.0) + 0.2, color="#1d4ed8", alpha=0.2)
        left.set_title("<b>&amp; 5 of 6", loc="left")
        right.bar(["a", "b"], [1.0, 2.0], color="#c2410c")
        figure.suptitle("a title that the page says")
    return figure


def test_a_figure_is_small_and_in_variables():
    pictures = Pictures()
    with rc_context(STYLE):
        svg = pictures.whole(drawn())
    root = ElementTree.fromstring(svg)
    plain = StringIO()
    drawn().savefig(plain, format="svg")
    assert len(svg) < len(plain.getvalue()) / 3
    assert "a title that the page says" not in svg
    assert not re.search(r"#[0-9a-f]{6}", svg)
    assert "style" not in {name for e in root.iter() for name in e.attrib}
    assert [e for e in root.iter("text") if e.text == "a"]
    style = pictures.stylesheet()
    assert "--c111827:#111827" in style
    used = {c for e in root.iter() for c in e.get("class", "").split()}
    assert used <= set(re.findall(r"\.(s\d+)\{", style))


def test_dark_ink_is_light_on_a_dark_ground():
    pictures = Pictures()
    with rc_context(STYLE):
        pictures.whole(drawn())
    dark = pictures.stylesheet().partition("prefers-color-scheme:dark")[2]
    for name in ("111827", "1d4ed8", "c2410c"):
        shown = re.search(rf"--c{name}:#([0-9a-f]{{6}})", dark)
        assert shown is not None
        assert sum(int(shown[1][i : i + 2], 16) for i in (0, 2, 4)) > 3 * 100


def test_dots_are_one_path_and_a_crowd_of_them_is_pixels():
    pictures = Pictures()
    with rc_context(STYLE):
        few, many = pictures.whole(drawn(400)), pictures.whole(drawn(CROWD + 1))
    assert few.count("<use") < 30
    assert re.search(r'd="(?:M[\d.]+ [\d.]+h0){390,400}"', few)
    assert "<image" not in few
    assert "data:image/png;base64" in many
