"""The picture of a diagnosis: where it is drawn, and that its labels can be read."""

import itertools

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from bayes_grpo import diagnose, plot_diagnosis
from tests.diagnosis.conftest import ROWS
from tests.helpers.runs import make_run, steps


def labels(axis, renderer):
    """Boxes of the tick labels that are seen."""
    low, high = sorted(axis.get_view_interval())
    ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
    shown = [t.label1 for t in ticks if low <= t.get_loc() <= high and t.label1.get_text()]
    return [label.get_window_extent(renderer) for label in shown]


def test_it_goes_into_a_given_figure(hacked):
    figure = Figure(figsize=(9, 5), layout="constrained")
    assert plot_diagnosis(diagnose(hacked), figure) is figure
    assert len(figure.axes) == 2
    assert figure.get_size_inches().tolist() == [9, 5]


@pytest.mark.parametrize("decades", [1.4, 1.9, 2.6, 2.8, 6.0, 9.0])
@pytest.mark.parametrize("start", [0.003, 0.5, 17.0])
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
