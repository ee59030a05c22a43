"""Errors of a verifier: labels that are read, rates that are found, and what is refused."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest

from bayes_grpo import view
from bayes_grpo.common.errors import FitError, LogReadError, SettingError
from bayes_grpo.passing.verifier import verifier_errors
from bayes_grpo.rollouts.labels import Labels, ids_of, labels_of, places_of, read_labels, to_label
from bayes_grpo.rollouts.passes import Right, right_of
from tests.helpers.command import call
from tests.helpers.made_rollouts import rollouts_of

STEPS, PROMPTS, GROUP = 20, 6, 8
N = STEPS * PROMPTS * GROUP
RNG = np.random.default_rng(0)
STEP = np.repeat(np.arange(1, STEPS + 1), PROMPTS * GROUP)
TRUTH = RNG.random(N) < np.linspace(0.2, 0.7, STEPS)[STEP - 1]
ACCEPTED = (RNG.random(N) < np.where(TRUTH, 0.8, 0.15)).astype(float)
RUN = rollouts_of(
    ACCEPTED, STEP, np.repeat(np.arange(STEPS * PROMPTS), GROUP), parts={"judge_score": TRUTH * 1.0, "style": ACCEPTED}
)


def text_of(i):
    return ".".join(map(str, ids_of(RUN)[i]))


@pytest.fixture
def labels(tmp_path):
    """A file of 120 labels, half of them words."""
    path = tmp_path / "labels.csv"
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["ID", "Right"])
        for i in np.random.default_rng(1).choice(N, 120, replace=False):
            rows.writerow([text_of(i), ("right" if TRUTH[i] else "wrong") if i % 2 else int(TRUTH[i])])
    return path


def test_ids_number_groups_and_samples_as_they_were_written():
    found = ids_of(RUN)
    assert found[0].tolist() == [1, 1, 1]
    assert found[GROUP].tolist() == [1, 2, 1]
    assert found[-1].tolist() == [STEPS, PROMPTS, GROUP]
    assert len(np.unique(found, axis=0)) == N


def test_rates_are_found_by_phase(labels):
    found = verifier_errors(RUN, right_of(RUN), read_labels(labels, RUN))
    assert found.convergence.passed
    for interval, true in ((found.false_accept, 0.15), (found.false_reject, 0.2), (found.right, TRUTH.mean())):
        assert interval.low < true < interval.high
    assert found.labels == 120
    assert len(found.phases) == 5
    assert found.phases[0].right.median < found.phases[-1].right.median
    assert len(found.next) == len(set(found.next)) == 20
    assert "label by hand next" in view(found).do


def test_steps_without_a_verdict_and_one_length_of_most_make_no_stratum():
    accepted = np.where(STEP <= 4, np.nan, ACCEPTED)
    capped = replace(RUN, length=np.where(np.arange(N) % 3, 512.0, 100.0).astype(np.float32))
    place = np.random.default_rng(1).choice(N, 200, replace=False)
    found = verifier_errors(capped, Right(accepted, "made"), Labels(place, TRUTH[place]))
    assert found.labels == np.sum(STEP[place] > 4) == sum(phase.labels for phase in found.phases)
    assert found.phases[0].name.startswith("steps 5 to ")
    assert found.lengths == ()
    assert found.right.low < TRUTH[STEP > 4].mean() < found.right.high


def test_proposed_labels_are_new_and_of_both_verdicts(labels):
    known = read_labels(labels, RUN)
    chosen = to_label(RUN, ACCEPTED, known)
    numbers = places_of(RUN)
    places = [numbers[x] for x in chosen]
    assert not set(places) & set(known.place.tolist())
    assert 0 < ACCEPTED[places].sum() < 20
    assert len({int(RUN.step[i]) for i in places}) > 10


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("id,right\n99.1.1,1\n", SettingError, "expected ids of completions of made, such as 1.1.1, found 99.1.1"),
        ("id,right\n1.1.1,maybe\n", SettingError, "expected right or wrong"),
        ("id,right\n1.1.1,\n", SettingError, "found none yet"),
        ("a,b\n1,2\n", LogReadError, "expected the columns id and right, found a, b"),
    ],
)
def test_labels_that_cannot_be_used_are_refused_in_words(tmp_path, text, error, says):
    path = tmp_path / "l.csv"
    path.write_text(text)
    with pytest.raises(error, match=says):
        read_labels(path, RUN)


def test_few_labels_and_a_missing_file_are_refused(tmp_path):
    with pytest.raises(LogReadError, match="writes one"):
        read_labels(tmp_path / "none.csv", RUN)
    with pytest.raises(FitError, match="expected at least 10 labels"):
        verifier_errors(RUN, right_of(RUN), Labels(np.arange(3), TRUTH[:3], ()))


def test_labels_that_match_in_part_are_counted(tmp_path):
    path = tmp_path / "l.csv"
    path.write_text("id,right\n1.1.1,1\n1.1.1,0\n77.1.1,1\n")
    found = read_labels(path, RUN)
    assert (found.place.tolist(), found.right.tolist()) == ([0], [False])
    assert found.notes == (
        "1 labels match no completion: 77.1.1",
        "1 completions are labeled more than once; the last label counts",
    )


def test_a_second_scorer_serves_as_labels_and_bounds_the_verifier():
    given = labels_of(RUN, "judge_score", right_of(RUN, "reward"))
    assert given.by == "judge_score"
    share = np.mean(ACCEPTED != TRUTH)
    assert (
        f"disagree on {share:.1%} of {N} completions: one of them is wrong in at least {share / 2:.1%}"
        in given.notes[0]
    )
    found = verifier_errors(RUN, right_of(RUN, "reward"), given)
    assert found.false_accept.low < 0.15 < found.false_accept.high
    assert found.false_reject.low < 0.2 < found.false_reject.high
    assert f"{N} labels by judge_score" in found.sentence
    assert "errors that both scorers make are not covered" in view(found).unchecked
    with pytest.raises(SettingError, match="expected another scorer"):
        labels_of(RUN, "reward", right_of(RUN, "reward"))


def test_the_command_writes_reads_and_answers(labels, tmp_path):
    table = tmp_path / "c.csv"
    frame = RUN.to_frame().rename(columns={"prompt": "prompt_id"})
    frame[["step", "prompt_id", "reward", "judge_score"]].to_csv(table, index=False)
    file = tmp_path / "next.csv"
    shown = call("rollouts", table, "--labels", labels, "--to-label", file, "--json")
    found = json.loads(shown.out)
    assert found["verifier"]["labels"] == 120
    assert len(file.read_text().splitlines()) == 21
    assert call("rollouts", table, "--to-label", file).code == 3
    assert "expected NAME>=NUMBER" in call("rollouts", table, "--labels", "reward>=x").err
