"""A mode is one file: evidence, onset and remedies are found by being there, and take part in nothing unasked."""

import io
import json

import numpy as np
import pytest
from rich.console import Console

from bayes_grpo import diagnose, plot_diagnosis, render_diagnosis
from bayes_grpo.diagnosis import modes
from bayes_grpo.diagnosis.classes import MODES
from bayes_grpo.diagnosis.layer import PREDICTORS
from bayes_grpo.diagnosis.mode import all_modes, label_of
from tests.diagnosis.conftest import ROWS
from tests.helpers.runs import make_run, steps

CLIPPED = '''
"""Most of the batch lies outside the clip range."""

import numpy as np

from bayes_grpo.diagnosis.evidence import ModeEvidence, quantity
from bayes_grpo.diagnosis.mode import Mode
from bayes_grpo.diagnosis.mode import last_true, steps_between


class Clipped(Mode):
    name = "all_clipped"
    label = "everything clipped"
    signals = ("clip_ratio",)

    def evidence(self, trends):
        trend = trends.signals.get("clip_ratio")
        if trend is None:
            return ModeEvidence(self.name, np.nan, (), (), ("clip_ratio",), "no clip ratio", {"grew": 99.0})
        share = trend.draws[:, -1]
        found = quantity("clipped", share, "", "share of tokens clipped at the end")
        sentence = f"{found.posterior.median:.0%} of the tokens are clipped"
        probability = float(np.mean(share > 0.5))
        return ModeEvidence(self.name, probability, (found,), ("clip_ratio",), (), sentence, {"grew": 99.0})

    def onset(self, trends):
        trend = trends.signals["clip_ratio"]
        at = steps_between(trend.step[0], trend.step[-1])
        return at[last_true(trend.at(at) < 0.5)], "half of the tokens are clipped"

    def remedies(self, trends, evidence, onset):
        return (f"refresh the policy more often from step {onset.median:.0f} on",)


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


def test_the_shipped_modes_are_the_classified_ones_and_the_plateau():
    found = all_modes()
    assert tuple(m.name for m in found) == (*MODES, "plateaued")
    assert {e.belongs for e in PREDICTORS} == {"healthy", "plateaued", *MODES}
    assert [m.name for m in found if m.is_failure] == list(MODES)
    assert label_of("reward_hacking") == "reward hacking"
    assert label_of("cannot_tell") == "cannot tell"


def test_a_new_mode_is_one_file(clipping, request):
    before = diagnose(clipping)
    request.getfixturevalue("with_clipped")
    after = diagnose(clipping)
    assert after.own["all_clipped"] > 0.95
    assert 40 < after.onsets["all_clipped"].step.median < 60
    assert after.remedies["all_clipped"] == (
        f"refresh the policy more often from step {after.onsets['all_clipped'].step.median:.0f} on",
    )
    # Bayes' rule does not know it, whatever its features are called.
    assert after.probability == before.probability
    assert {k: after.own[k] for k in before.own} == before.own
    assert after.answer == before.answer
    assert "Also under way: everything clipped" in after.sentence
    content = after.to_dict()
    json.dumps(content, allow_nan=False)
    assert content["evidence"]["all_clipped"]["sentence"].endswith("of the tokens are clipped")


def test_a_new_mode_is_shown(with_clipped, clipping):
    result = diagnose(clipping)
    out = io.StringIO()
    render_diagnosis(result, Console(file=out, width=120))
    for words in (
        "everything clipped (in its failing range",
        "Onset of everything clipped",
        "everything clipped: refr",
    ):
        assert words in out.getvalue()
    texts = [t.get_text() for axes in plot_diagnosis(result).axes for t in (axes.title, *axes.get_yticklabels())]
    texts += [axes.get_title(loc="left") for axes in plot_diagnosis(result).axes]
    assert "everything clipped" in texts
    assert "clip ratio" in texts


def test_a_new_mode_without_its_signal_says_what_is_missing(with_clipped, rising):
    result = diagnose(make_run(steps(ROWS), rising))
    assert "all_clipped" not in result.own
    assert "clip_ratio" in result.missing
    assert "all_clipped" not in result.remedies


def test_a_plateau_has_remedies():
    flat = 0.5 + 0.03 * np.random.default_rng(3).standard_normal(ROWS)
    result = diagnose(make_run(steps(ROWS), flat), prior={"plateaued": 0.9})
    assert result.answer == "plateaued"
    assert "learning rate" in result.remedies["plateaued"][0]
