"""A mode is one file: evidence, course and remedies are found by being there, and take part in nothing unasked."""

import json

import numpy as np
import pytest

from bayes_grpo import diagnose, plot_diagnosis
from bayes_grpo.diagnosis import modes
from bayes_grpo.diagnosis.chain import ModeChain
from bayes_grpo.diagnosis.classes import MODES
from bayes_grpo.diagnosis.mode import all_modes, label_of
from bayes_grpo.diagnosis.timeline import shipped_chains
from tests.diagnosis.conftest import ROWS
from tests.helpers.runs import make_run, steps
from tests.helpers.shown import text_of
from tests.helpers.trends import there

CLIPPED = '''
"""Most of the batch lies outside the clip range."""

import numpy as np

from bayes_grpo.diagnosis.evidence import ModeEvidence, quantity
from bayes_grpo.diagnosis.mode import Mode


class Clipped(Mode):
    name = "all_clipped"
    label = "everything clipped"
    signals = ("clip_ratio",)

    def evidence(self, trends):
        trend = trends.signals.get("clip_ratio")
        if trend is None:
            return ModeEvidence(self.name, np.nan, (), (), ("clip_ratio",), "no clip ratio")
        share = trend.draws[:, -1]
        found = quantity("clipped", share, "", "share of tokens clipped at the end")
        sentence = f"{found.posterior.median:.0%} of the tokens are clipped"
        probability = float(np.mean(share > 0.5))
        return ModeEvidence(self.name, probability, (found,), ("clip_ratio",), (), sentence)

    predictors = ("share clipped",)

    def course(self, trends):
        trend = trends.signals.get("clip_ratio")
        if trend is None:
            return np.full((len(trends.reward.step), 1), np.nan)
        return 4.0 * (trend.at(trends.reward.step).mean(axis=0)[:, None] - 0.5)

    def depth(self, trends, first, last):
        return "half of the tokens are clipped"

    def remedies(self, trends, evidence, onset):
        since = "now" if onset is None else f"step {onset.median:.0f}"
        return (f"refresh the policy more often from {since} on",)


MODE = Clipped()
'''


@pytest.fixture
def with_clipped(tmp_path, monkeypatch):
    """Adds a file to the modes."""
    (tmp_path / "all_clipped.py").write_text(CLIPPED, encoding="utf-8")
    monkeypatch.setattr(modes, "__path__", [*modes.__path__, str(tmp_path)])


@pytest.fixture(scope="module")
def clipping(rising):
    """A healthy rise whose share of clipped tokens crosses one half at step 50."""
    clipped = np.linspace(0.0, 0.8, ROWS) + 0.01 * np.random.default_rng(5).standard_normal(ROWS)
    return make_run(steps(ROWS), rising, signals={"clip_ratio": clipped})


def learned(weight=2.0):
    """The shipped numbers, and some of the new mode."""
    mean = np.array([weight, 0.0, -1.0, 0.0, 0.0, -4.0, -3.0])
    return {**shipped_chains(), "all_clipped": ModeChain(("share clipped",), mean, 1e-4 * np.eye(7), {})}


def test_the_shipped_modes_are_the_classified_ones_and_what_a_timeline_tells_beside_them():
    found = all_modes()
    beside = ("apparent_gain", "engine_gap", "idle_steps", "lost_values", "one_sided_groups", "truncated_completions")
    assert tuple(m.name for m in found) == (*MODES, *sorted((*beside, "growing", "plateaued")))
    assert set(shipped_chains()) <= {m.name for m in found}
    assert set(MODES) | {"growing", "plateaued"} <= set(shipped_chains())
    assert [m.name for m in found if m.is_failure] == [*MODES, *beside]
    assert all(shipped_chains()[m.name].predictors == m.predictors for m in found if m.name in shipped_chains())
    assert label_of("reward_hacking") == "reward hacking"
    assert label_of("cannot_tell") == "cannot tell"


def test_a_new_mode_is_one_file(clipping, request):
    before = diagnose(clipping)
    request.getfixturevalue("with_clipped")
    after = diagnose(clipping, chains=learned())
    assert after.own["all_clipped"] > 0.9
    assert 40 < after.onsets["all_clipped"].step.median < 60
    assert after.onsets["all_clipped"].depth == "half of the tokens are clipped"
    assert after.remedies["all_clipped"] == (
        f"refresh the policy more often from step {after.onsets['all_clipped'].step.median:.0f} on",
    )
    # Which of the four leads does not hang on it.
    assert after.probability == before.probability
    assert {k: after.own[k] for k in before.own} == before.own
    assert after.answer == before.answer
    assert after.sentence.startswith("Everything clipped (probability ")
    content = after.to_dict()
    json.dumps(content, allow_nan=False)
    assert content["evidence"]["all_clipped"]["sentence"].endswith("of the tokens are clipped")


def test_a_new_mode_without_learned_numbers_speaks_by_its_evidence(with_clipped, clipping):
    result = diagnose(clipping)
    assert result.own["all_clipped"] == result.evidence["all_clipped"].probability > 0.95
    assert "all_clipped" not in there(result.timeline).modes
    assert "all_clipped" not in result.onsets
    assert result.remedies["all_clipped"] == ("refresh the policy more often from now on",)


def test_a_new_mode_is_shown(with_clipped, clipping):
    result = diagnose(clipping, chains=learned())
    shown = text_of(result, 160)
    for words in ("Everything clipped (by itself", "half of the tokens are clipped", "clipped: refresh"):
        assert words in shown
    texts = [t.get_text() for axes in plot_diagnosis(result).axes for t in (axes.title, *axes.get_yticklabels())]
    texts += [axes.get_title(loc="left") for axes in plot_diagnosis(result).axes]
    assert "everything clipped" in texts
    assert "clip ratio" in texts


def test_a_new_mode_without_its_signal_says_what_is_missing(with_clipped, rising):
    result = diagnose(make_run(steps(ROWS), rising), chains=learned())
    assert "all_clipped" not in result.own
    assert not there(result.timeline).modes["all_clipped"].seen
    assert "clip_ratio" in result.missing
    assert "all_clipped" not in result.remedies


def test_a_plateau_has_remedies():
    flat = 0.5 + 0.03 * np.random.default_rng(3).standard_normal(ROWS)
    result = diagnose(make_run(steps(ROWS), flat), prior={"plateaued": 0.9})
    assert result.answer == "plateaued"
    assert "learning rate" in result.remedies["plateaued"][0]
