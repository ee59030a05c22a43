"""Figures: what they show stays inside."""

import numpy as np
import pytest

from bayes_grpo.common.picture import legend_below, one_panel
from bayes_grpo.rows.rows_of import rows_of
from bayes_grpo.views.plots.fitting import ordinary
from tests.helpers.runs import make_run, steps


@pytest.mark.parametrize(("entries", "columns"), [(4, 4), (7, 3)])
def test_a_legend_is_as_wide_as_its_figure_at_most(entries, columns):
    figure, axes = one_panel(None, (9.2, 4.6))
    for i in range(entries):
        axes.plot([0, 1], [0, i], label=f"{'forecast of the underlying reward' if entries > 4 else 'reward'}, {i}")
    legend_below(figure, axes)
    (legend,) = figure.legends
    assert legend.get_window_extent().width <= figure.bbox.width
    assert vars(legend)["_ncols"] == columns


def test_the_band_of_the_rows_leaves_outliers_out():
    """An outlier has the measurement variance at which it is an ordinary row: its band would fill the figure."""
    reward = 0.5 + 0.02 * np.random.default_rng(0).standard_normal(60)
    reward[30] = 5.0
    weight = rows_of(make_run(steps(60), reward)).weight
    assert np.flatnonzero(~ordinary(weight)).tolist() == [30]
