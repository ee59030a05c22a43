"""The checks: silent on rows that the law made, loud on planted defects, and right about which."""

import json
import re
import warnings
from dataclasses import replace

import numpy as np
import pytest

from bayes_grpo import check, fit, save_fit
from bayes_grpo.checking import CheckLine, Residuals, check_sentence, combined, findings_of, residuals_of
from bayes_grpo.common.errors import FitError
from bayes_grpo.comparison.changes import CLEAR_FACTOR
from tests.helpers.command import call
from tests.helpers.runs import FEW, make_run, rising_run, steps
from tests.helpers.selection import few

NAMES = ("autocorrelation", "variance", "outliers", "break")
"""Draws for what needs no converged fit; all such fits share a compiled program."""


def tails(e):
    """Tail probabilities of a series of residuals that does not depend on the draw."""
    both = np.repeat(e[None], 3, axis=0)
    found = findings_of(Residuals(both, both), np.arange(1.0, len(e) + 1), e)
    assert tuple(f.name for f in found) == NAMES
    return {f.name: f.tail for f in found}


@pytest.mark.thorough
def test_white_residuals_alarm_as_often_as_they_say():
    rng = np.random.default_rng(2)
    n = 300
    seen = [tails(rng.standard_normal(60)) for _ in range(n)]
    for name in NAMES[:3]:
        share = np.mean([s[name] < 0.05 for s in seen])
        assert abs(share - 0.05) < 3.5 * np.sqrt(0.05 * 0.95 / n), (name, share)
    assert np.mean([s["break"] <= np.exp(-CLEAR_FACTOR) for s in seen]) <= 0.05


def planted(name, e):
    """White residuals with a defect of this name."""
    n = len(e)
    if name == "autocorrelation":
        e[1:] += 0.5 * e[:-1]
    elif name == "variance":
        e[n // 2 :] *= 2.0
    elif name == "outliers":
        e[70] += 6.0
    else:
        e[50:] += 4.0
    return e


@pytest.mark.parametrize("times", few([1, 40], 1))
@pytest.mark.parametrize("name", NAMES)
def test_planted_defects_are_found_and_named(name, times):
    rng = np.random.default_rng(4)
    limit = np.exp(-CLEAR_FACTOR) if name == "break" else 0.05
    hits = sum(tails(planted(name, rng.standard_normal(120)))[name] < limit for _ in range(times))
    assert hits >= 0.85 * times


def test_an_outlier_is_no_change_of_variance():
    rng = np.random.default_rng(0)
    e = rng.standard_normal(80)
    e[75] = 9.0
    found = tails(e)
    assert found["outliers"] < 1e-6
    assert found["variance"] > 0.05


def test_tail_probabilities_of_many_draws_are_joined():
    assert combined(np.full(50, 0.03)) == pytest.approx(0.03)
    assert combined(np.array([1e-6, 0.5, 0.5, 0.5])) == pytest.approx(4e-6, rel=0.01)
    rng = np.random.default_rng(0)
    assert np.mean([combined(rng.uniform(size=20)) < 0.05 for _ in range(2000)]) == pytest.approx(0.05, abs=0.015)


@pytest.fixture(scope="module")
def made():
    """A flat log of 80 rows whose noise is three times as large in its second half, with one odd row.

    One farther off is weighed as an outlier by the rows themselves, and no law misses it.
    """
    rng = np.random.default_rng(1)
    y = 0.5 + 0.02 * rng.standard_normal(80) * np.where(np.arange(80) < 40, 1.0, 3.0)
    y[20] = 0.78
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fit(make_run(np.arange(1.0, 81), y), "flat", seed=0)


@pytest.fixture(scope="module")
def rising():
    """A fit with the settings, and of as many rows, as other tests have: one compiled program for all."""
    return fit(rising_run(seed=4), "exponential", seed=1)


@pytest.mark.thorough
def test_defects_of_a_log_are_told_in_words(made):
    found = check(made)
    finding = {f.name: f for f in found.findings}
    assert found.misses == ("variance", "outliers")
    assert min(finding["autocorrelation"].tail, finding["break"].tail) > 0.1
    noise = re.search(r"from step (\d+) to (\d+) it is ([\d.]+) times", finding["variance"].sentence)
    assert noise is not None, finding["variance"].sentence
    first, last, ratio = map(float, noise.groups())
    assert 2.0 < max(ratio, 1.0 / ratio) < 6.0  # the loud stretch, or the quiet one
    assert 18 <= (first if last >= 75 else last) <= 46
    assert "the noise level changes" in found.sentence
    outlier = finding["outliers"]
    assert outlier.step == 21.0
    assert "step 21 is an outlier" in outlier.sentence
    assert "above" in outlier.sentence
    assert "the row at step 21 is an outlier" in found.sentence
    text = json.dumps(found.to_dict(), allow_nan=False)
    assert json.loads(text)["misses"] == list(found.misses)


def test_residuals_are_standardised_and_exact(rising):
    """Leave-one-out densities are those of the fit, up to the scale of each row, which residuals do not have."""
    found = residuals_of(rising.as_draws, 50)
    total = rising.draws("observation_sd").size
    picks = np.linspace(0, total - 1, 50).astype(int)
    stored = rising.data["log_likelihood"].dataset["y"].to_numpy().reshape(total, -1)[picks]
    scale = np.exp(-0.5 * found.loo**2 - stored) / np.sqrt(2 * np.pi)
    noise = rising.draws("observation_sd").ravel()[picks, None] / np.sqrt(rising.as_draws.rows.precision)
    assert np.all(scale >= noise * (1 - 1e-9))


@pytest.mark.thorough
def test_few_rows_are_refused():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        short = fit(make_run(np.arange(1.0, 9), np.sin(np.arange(8.0))), "flat", sampler=FEW)
    with pytest.raises(FitError, match="at least 12 rows, found 8"):
        check(short)


def test_the_command_line_checks_a_saved_fit(rising, tmp_path):
    path = tmp_path / "fit.nc"
    save_fit(rising, path)
    done = call("fit", path, "--json")
    assert rising.convergence.passed
    assert done.code == 0, done.err
    assert json.loads(done.out)["check"]["sentence"] == check(rising).sentence
    assert call("fit", path, "--regime", "flat").code == 3


def test_every_clear_break_is_named_with_its_steps():
    breaks = (
        "The reward jumps from 0.09 to 0.5 between steps 11 and 12",
        "The reward bends upward between steps 21 and 23",
    )
    found = CheckLine("break", 18.9, 3.8, 0.0, 11.0, f"{'; '.join(breaks)} (Bayes factor 1.6e+08).", breaks)
    assert check_sentence((found,), "Flat", 60) == (
        "Flat misses something in these 60 rows: the reward jumps from 0.09 to 0.5 between steps 11 and 12, "
        "the reward bends upward between steps 21 and 23."
    )


def test_many_outliers_are_counted_and_what_the_noise_alone_misses_says_what_follows():
    rng = np.random.default_rng(1)
    n = 120
    e = rng.standard_normal((50, n)) * 0.05 + rng.standard_normal(n)
    e[:, [30, 60, 90]] += np.array([-8.0, -9.0, -8.0])
    found = findings_of(Residuals(e, e), steps(n), 0.5 + 0.01 * e[0])
    sentence = check_sentence(found, "flat", n)
    assert "3 rows are outliers, the farthest at step 61" in sentence
    assert sentence.endswith(" Its intervals take all rows for equally noisy.")
    shape = replace(found[3], statistic=10.0, limit=3.8, breaks=("It jumps",))
    assert "equally noisy" not in check_sentence((*found[:3], shape), "flat", n)
