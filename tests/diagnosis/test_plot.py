"""The picture of a diagnosis: where it is drawn, and that its labels can be read."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from bayes_grpo import diagnose, plot_diagnosis
from tests.diagnosis.conftest import ROWS
from tests.helpers.runs import make_run, steps
from tests.helpers.selection import few


def labels(axis, renderer):
    """Boxes of the tick labels that are seen."""
    low, high = sorted(axis.get_view_interval())
    ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
    shown = [t.label1 for t in ticks if low <= t.get_loc() <= high and t.label1.get_text()]
    return [label.get_window_extent(renderer) for label in shown]


def test_it_goes_into_a_given_figure(hacked):
    figure = Figure(figsize=(9, 5), layout="constrained")
    assert plot_diagnosis(diagnose(hacked), figure) is figure
    assert len(figure.axes) == 1
    assert figure.get_size_inches().tolist() == [9, 5]


@pytest.mark.parametrize("decades", few([1.4, 1.9, 2.6, 2.8, 6.0, 9.0], 2.6))
@pytest.mark.parametrize("start", few([0.003, 0.5, 17.0], 0.5))
def test_labels_of_logarithmic_axes_do_not_overlap(rising, decades, start):
    norm = start * 10.0 ** np.linspace(0.0, decades, ROWS)
    figure = plot_diagnosis(diagnose(make_run(steps(ROWS), rising, signals={"grad_norm": norm, "kl": 0.01})))
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    axes = next(a for a in figure.axes if a.get_title(loc="left") == "gradient norm")
    assert axes.get_yscale() == "log"
    boxes = labels(axes.yaxis, canvas.get_renderer())
    assert len(boxes) >= 2
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))


def drawn(run):
    """The picture of a run, laid out."""
    figure = plot_diagnosis(diagnose(run))
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return figure, canvas.get_renderer()


@pytest.mark.parametrize("rows", few([20, 2000], 20))
def test_nothing_lies_outside_the_page_or_on_another_text(rows):
    rng = np.random.default_rng(0)
    reward = np.where(np.arange(rows) < rows // 2, 0.9, 0.05) + 0.02 * rng.standard_normal(rows)
    entropy = 0.8 * np.exp(-7.0 * np.arange(rows) / rows)
    figure, renderer = drawn(make_run(steps(rows), reward, signals={"entropy": entropy}))
    page = figure.bbox
    for axes in figure.axes:
        texts = [t for t in (*axes.texts, axes.xaxis.label, axes.yaxis.label) if t.get_text()]
        texts += [t for t in axes.get_children() if isinstance(t, Text) and t.get_text() and t not in texts]
        boxes = [t.get_window_extent(renderer) for t in texts]
        boxes += [*labels(axes.xaxis, renderer), *labels(axes.yaxis, renderer)]
        for box in boxes:
            assert page.x0 <= box.x0 < box.x1 <= page.x1, axes.get_title(loc="left")
        for axis in (axes.xaxis, axes.yaxis):
            assert not any(a.overlaps(b) for a, b in itertools.combinations(labels(axis, renderer), 2))
        assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))


def test_all_panels_show_the_same_steps_though_a_signal_ends_early(rising):
    """A gradient norm of 0 is no row of its panel, which says so."""
    norm = np.where(np.arange(ROWS) < ROWS // 2, 1.0 + 0.1 * np.sin(np.arange(ROWS)), 0.0)
    figure, _ = drawn(make_run(steps(ROWS), rising, signals={"grad_norm": norm, "kl": 0.01}))
    panels = {a.get_title(loc="left"): a for a in figure.axes if a.get_xlabel() == "optimizer step"}
    assert len({a.get_xlim() for a in panels.values()}) == 1
    assert "gradient norm (rows without variance left out)" in panels


def test_a_resume_is_marked_in_every_panel(rising):
    run = replace(make_run(steps(len(rising)), rising, signals={"kl": 0.1 * rising}), resumes=(30.0, 50.0))
    figure = plot_diagnosis(diagnose(run))
    panels = [axes for axes in figure.axes if axes.has_data()]
    assert "dotted: resumed at step 30, 50" in panels[0].get_title(loc="left")
    for axes in panels:
        assert {30.0, 50.0} <= {
            float(np.asarray(line.get_xdata())[0]) for line in axes.lines if line.get_linestyle() == ":"
        }
