"""A diagnosis as a document: status, reason, action and episodes."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from bayes_grpo.common.document import (
    TONES,
    Cell,
    Document,
    Drawing,
    Sparkline,
    Tabular,
    chance,
    number,
    ranged,
    section,
    sentence_case,
    shows,
    span,
    table,
    words,
)
from bayes_grpo.common.intervals import percent, probability_text
from bayes_grpo.common.text import counted
from bayes_grpo.diagnosis.mode import Episode
from bayes_grpo.diagnosis.result import Diagnosis
from bayes_grpo.diagnosis.wording import as_sentence, label_of
from bayes_grpo.signals.run_paths import never_changes
from bayes_grpo.signals.thresholds import THRESHOLDS

_MOVES = ("growing", "plateaued")
"""Modes of a reward that does not fail."""
NOT_OBSERVED = "not seen"
"""In place of the probability of a mode that no logged signal can show."""
_PART_HEADS = (
    "appears at step", "at its start", "now", "P(rises)", "adds to the reward", "share of the gain", "falls since step",
)  # fmt: skip


@shows(Diagnosis)
def diagnosis_document(d: Diagnosis) -> Document:
    """The status first, then the probability of each mode, evidence and remedies."""
    answer = sentence_case(d.status.finding.lead)
    a = d.about
    logged = None if d.paths is None else d.paths.reward.logged
    return Document(
        title=a.name,
        about=f"{counted(a.rows, 'row')}, {counted(a.evaluations, 'evaluation')}, "
        f"steps {a.first_step:g} to {a.last_step:g}"
        + ("" if a.up_to_step is None else f", as of step {a.up_to_step:g}"),
        status=d.status.status,
        chance=d.status.chance,
        answer=answer,
        evaluation=evaluation_line(d),
        why=reason(d),
        do=d.status.action.sentence,
        tone=TONES[d.status.status],
        table=mode_table(d),
        plot=Drawing(partial(_drawn, d), f"Rewards and signals with their trends. {answer}", ratio=0.7),
        sections=(
            section("What happened", *(x.sentence for x in d.events), tables=episode_tables(d)),
            section("Evidence", *evidence_lines(d)),
            section("What to do", *remedy_lines(d)),
            section("Parts", tables=(parts_table(d),) if d.parts else ()),
            section("Gain", tables=gain_tables(d)),
            section("Notes", *d.notes),
        ),
        unchecked=_unchecked(d),
        docs="how/diagnose",
        series=None if logged is None else Sparkline(logged.step.tolist(), logged.value.tolist(), marks(d)),
    )


_OF_EVALUATION = ("evaluation_fell", "evaluation_stays", "reward_hacking", "solved")
"""Findings whose own sentences have the evaluation reward."""


def evaluation_line(d: Diagnosis, finding: bool = True) -> str:
    """First, last and best level of the evaluation reward, the best where it clearly differs; of few, what is logged.

    "" where no evaluation reward is logged next to a train reward.

    Args:
        d: The diagnosis.
        finding: Whether it follows the finding, whose sentence may have it already.
    """
    path = None if d.paths is None else d.paths.held_out
    found = d.status.finding
    named = found.kind in _OF_EVALUATION or bool({"eval_reward", "gold_reward"} & {*found.signals})
    if d.paths is None or path is None or (finding and named):
        return ""
    name = "Gold reward" if d.paths.held_out_name == "gold" else "Evaluation"
    logged = path.logged
    if logged.rows < THRESHOLDS.direct_rows:
        values = ", ".join(f"{x:.3g}" for x in logged.value)
        return f"{name}: {values}."
    if logged.constant:
        value = logged.value[0]
        why = ": the evaluated policy does not move, or is not the trained one" if never_changes(path) else ""
        return f"{name}: {value:.3g} in all {logged.rows}{why}."
    at = path.last_step[path.best_block]
    best = f", best {path.display_value(path.best):.3g} about step {at:.0f}" if path.peaked else ""
    return f"{name}: {path.display_value(path.start):.3g}{best}, now {path.display_value(path.now):.3g}."


def reason(d: Diagnosis) -> str:
    """The evidence for the status, past episodes, looks, a loss of 0, a negative KL, and parts that never paid."""
    detail = sentence_case(d.status.finding.detail) or f"Based on {d.status.evidence}."
    zeros = sentence_case(d.zeros.sentence) if d.zeros is not None and "loss" in d.zeros.signals else ""
    checks = (as_sentence(d.evidence.get(name, "")) for name in ("negative_kl", "unpaid_parts"))
    return " ".join(x for x in (detail, d.status.past, d.status.also, zeros, *checks) if x)


def evidence_lines(d: Diagnosis) -> tuple[str, ...]:
    """The evidence for each mode, the most probable first."""
    found = sorted(d.evidence.items(), key=lambda item: -d.probability.get(item[0], 0.0))
    chances = {name: f" ({percent(d.probability[name])})" for name in d.evidence if _observed(d, name)}
    return tuple(f"{sentence_case(label_of(name))}{chances.get(name, '')}: {text}" for name, text in found)


def remedy_lines(d: Diagnosis) -> tuple[str, ...]:
    """Remedies with the mode they are for, in the order of the diagnosis."""
    ongoing = {e.mode for e in episodes(d) if not e.over}
    shown = {m: actions for m, actions in d.remedies.items() if m not in _MOVES or m in ongoing}
    return tuple(f"{sentence_case(label_of(m))}: {x.clause}" for m, actions in shown.items() for x in actions)


def episode_tables(d: Diagnosis) -> tuple[Tabular, ...]:
    """The episodes, where there are any."""
    rows = [
        (label_of(e.mode), chance(e.probability), number(ranged(e.onset, ".0f")),
         number(ranged(e.end, ".0f") if e.over else "ongoing"), e.severity_text)
        for e in episodes(d)
    ]  # fmt: skip
    return (table("Episodes", ("mode", "probability", "from step", "to step", ""), rows),) if rows else ()


def _drawn(d: Diagnosis, figure: Any) -> object:
    """Its figure, for a back end that draws."""
    from bayes_grpo.views.plots.diagnosis import plot_diagnosis

    return plot_diagnosis(d, figure)


def gain_tables(d: Diagnosis) -> tuple[Tabular, ...]:
    """Parts of the gain, where the diagnosis was given rollouts."""
    if d.gain is None or not d.gain.shares:
        return ()
    from bayes_grpo.views.rollouts import gain_table  # the room of rollouts, which few diagnoses look at

    return (gain_table(d.gain),)


def parts_table(d: Diagnosis) -> Tabular:
    """Reward functions and environments with their trends."""
    late = max(d.about.first_step, 1.0)
    rows = (
        (
            words(p.name, limit=60),
            number("" if p.first_step <= late else f"{p.first_step:g}"),
            p.before,
            p.now,
            chance(p.p_rises),
            number("" if math.isnan(p.adds.median) else f"{p.adds.median:+.3g}"),
            number(f"{p.share.median:.0%} {span(p.share, '.0%')}" if -1.0 <= p.share.median <= 2.0 else ""),
            number("" if p.falls_since is None else f"{p.falls_since:.0f}"),
        )
        for p in d.parts
    )
    return table(f"Parts of the reward ({d.about.interval_level:.0%} intervals)", (d.parts[0].kind, *_PART_HEADS), rows)


def _unchecked(d: Diagnosis) -> str:
    """Useful signals that the log lacks, and those that are no number in any row; "" without any."""
    columns = ("heldout" if "evaluation" in x else x for x in d.missing)
    options = [f"--column {x}={d.suggested[x][0]}" for x in columns if x in d.suggested]
    them = "it" if len(options) == 1 else "them"
    named = f"; {', '.join(options)} may name {them}" if options else ""
    why = ((d.missing, f"not recognized in this log{named}"), (d.single, "one value"), (d.empty, "NaN in every row"))
    found = "; ".join(f"{', '.join(names)} ({reason})" for names, reason in why if names)
    return f"Not checked: {found}" if found else ""


def episodes(d: Diagnosis) -> list[Episode]:
    """Probable episodes in order; a reward either rises or rests: now as the status has it, else the likelier."""
    if d.timeline is None:
        return []
    found = [e for e in d.timeline.episodes if e.probable and (e.severity_text or e.mode != "growing")]
    now = [e for e in found if not e.over and e.mode in _MOVES]
    shown = max(now, key=lambda e: (e.mode == d.status.finding.mode, e.probability), default=None)
    remaining = [e for e in found if e is shown or not any(e is x for x in now)]
    return [e for e in remaining if e is shown or not any(_covers(x, e) for x in remaining)]


def _covers(one: Episode, other: Episode) -> bool:
    """True where a likelier episode of a reward that rises or rests covers more than half of another."""
    if one.mode not in _MOVES or other.mode not in _MOVES or one.probability <= other.probability:
        return False
    first, last = (f(x.median, y.median) for f, x, y in ((max, one.onset, other.onset), (min, one.end, other.end)))
    return last - first > 0.5 * (other.end.median - other.onset.median)


def marks(d: Diagnosis) -> dict[str, float]:
    """Events to mark on a curve, label → step: the onsets of three failures, the first that of the status; resumes."""
    failures = [e for e in episodes(d) if e.mode not in _MOVES]
    failures.sort(key=lambda e: (e.mode != d.status.finding.mode, -e.probability))
    resumes = () if d.paths is None else d.paths.run.resumes[-2:]
    found = {"resumed" if i == 0 else "resumed again": step for i, step in enumerate(resumes)}
    return {label_of(e.mode): float(round(e.onset.median)) for e in failures[:3]} | found


def _observed(d: Diagnosis, name: str) -> bool:
    """True if a logged signal can show a mode."""
    return d.timeline is not None and name in d.timeline.modes and d.timeline.modes[name].seen


def mode_table(d: Diagnosis) -> Tabular:
    """The probability that each mode is under way, and since when; those that no logged signal shows are last."""

    def line(name: str, p: float) -> tuple[Cell, ...]:
        mark = name == d.status.finding.mode
        since = ""
        if name in d.onsets:
            step = d.onsets[name].step
            since = f"{step.median:.0f}" if step.low == step.high else ranged(step, ".0f")
        label = label_of(name)
        chance_text = probability_text(p) if _observed(d, name) else NOT_OBSERVED
        return words(label, term=label, mark=mark), number(chance_text, mark=mark), number(since)

    ordered = sorted(d.probability.items(), key=lambda item: (not _observed(d, item[0]), -item[1]))
    heads = ("mode", Cell("under way", term="under way"), Cell("since step", term="onset"))
    return table("Probability that each mode is under way", heads, (line(*x) for x in ordered))
