"""What is wrong with the run, if anything: the diagnosis with its evidence and its history."""

from __future__ import annotations

import math
from collections.abc import Mapping

from bayes_grpo.common.intervals import Interval, probability_text
from bayes_grpo.diagnosis.classes import ANSWERS, CANNOT_TELL
from bayes_grpo.diagnosis.evidence import ModeEvidence, weighed_text
from bayes_grpo.diagnosis.mode import all_modes, label_of
from bayes_grpo.diagnosis.plot import plot_diagnosis
from bayes_grpo.diagnosis.result import Diagnosis
from bayes_grpo.diagnosis.status import Status
from bayes_grpo.diagnosis.story import failures
from bayes_grpo.diagnosis.timeline import Episode
from bayes_grpo.report.answer import Answer
from bayes_grpo.report.page import Cell, PageTable, Part, Picture, Section, Tone, head, number, said, words
from bayes_grpo.report.sections.common import SMALL, digits, estimate, new_figure, nothing, panels
from bayes_grpo.report.svg import Pictures
from bayes_grpo.rollouts.decomposition import Decomposition
from bayes_grpo.views.plots.rollouts import plot_gain

KEY, TITLE, QUESTION = (
    "diagnosis",
    "What is wrong",
    "Is anything wrong with the run, since when, and what would mend it?",
)
_BARS = "Numbers: the probability as the answer, and that it is under way, alone or beside another failure."
_SIGNALS = {
    "frac_reward_zero_std": "Share of groups without spread",
    "kl": "KL to the reference",
    "grad_norm": "Gradient norm",
    "reward_std": "Spread of the reward",
}
TONES: Mapping[Status, Tone] = {
    "fine": "good", "done": "good", "watch": "doubt", "unclear": "doubt", "failing": "alarm", "failed": "alarm",
}  # fmt: skip
"""Status → how it is marked."""
_MOST = 8
"""Panels of signals that are shown."""


def wrong(found: Answer[Diagnosis], pictures: Pictures) -> Section:
    """The section on the diagnosis."""
    if found.value is None:
        return nothing(KEY, TITLE, QUESTION, found.reason)
    d = found.value
    tables = [_probabilities(d)]
    if d.evidence:
        tables.append(_evidence(d))
    if d.history is not None:
        tables.append(_history(d))
    if d.gain is not None and d.gain.shares:
        tables.append(_gain(d.gain))
    return Section(
        KEY,
        TITLE,
        QUESTION,
        answer=said(d.sentence, 900),
        tone=tone_of(d),
        pictures=(*_pictures(d, pictures), *_gain_pictures(d.gain, pictures)),
        tables=tuple(tables),
        parts=_parts(d),
        terms=("onset", "history", "evidence"),
    )


def tone_of(d: Diagnosis) -> Tone:
    """How the verdict is marked."""
    return TONES[d.top.status]


def chance_of(d: Diagnosis) -> str:
    """The probability of what the verdict begins with: a failure under way, the top line's first, or the answer."""
    found = failures([] if d.timeline is None else [e for e in d.timeline.episodes if e.probable and not e.over])
    if found:
        first = next((e for e in found if e.mode == d.top.finding), found[0])
        return f"P({label_of(first.mode)}) {probability_text(first.probability)}"
    if d.top.alarming:
        return f"P(a failure) {probability_text(d.failing)}"
    return f"P({label_of(d.answer)}) {probability_text(d.probability[d.answer])}"


def _pictures(d: Diagnosis, pictures: Pictures) -> tuple[Picture, ...]:
    bars = 2 if d.history is None else 3
    figure = new_figure((SMALL[0] * 3, SMALL[1] * 1.1 * bars))
    plot_diagnosis(d, figure=figure)
    signals = len(figure.axes) - bars
    listed = ", ".join(f"{label_of(n)} {probability_text(d.probability[n])}" for n in ANSWERS)
    happened = [] if d.timeline is None else [e for e in d.timeline.episodes if e.probable]
    listed_then = "; ".join(f"{label_of(e.mode)} from step {e.onset.median:.0f}" for e in happened) or "no episode"
    told = [
        (0, f"What was under way when: {listed_then}", "Darker: more probable. Hatched: the log cannot show it."),
        (1, f"Probability of each answer: {listed}", _BARS),
    ]
    if d.history is not None:
        past = figure.axes[2]
        past.set_title("said at earlier steps", loc="left")
        past.tick_params(labelsize=6.5)
        past.set_xlabel(past.get_xlabel(), fontsize=6.5)
        told.append((2, f"What would have been said earlier: {d.history.sentence}", "Colours as in the bars."))
    out = panels(pictures, figure, told, "half")
    if not signals:
        return out
    # A single signal stands over two columns of the picture; the page gives it one.
    figure = new_figure((SMALL[0] * (1.5 if signals == 1 else 3), SMALL[1] * -(-signals // 2)))
    plot_diagnosis(d, figure=figure)
    told = []
    for i in range(bars, min(bars + _MOST, len(figure.axes))):
        axes = figure.axes[i]
        name = axes.get_title(loc="left").partition(";")[0]
        axes.set_title(name, fontsize=9, loc="left")
        axes.set_xlabel("optimizer step", fontsize=8)
        axes.tick_params(labelsize=8)
        told.append((i, f"Course of {name} by optimizer step with its band", _onset_caption(d) if i == bars else ""))
    return (*out, *panels(pictures, figure, told))


def _gain_pictures(gain: Decomposition | None, pictures: Pictures) -> tuple[Picture, ...]:
    """What the gain is made of, where saved completions were given."""
    if gain is None or not gain.course.changes:
        return ()
    figure = new_figure((SMALL[0] * 3, SMALL[1] * 1.3))
    plot_gain(gain, figure)
    told = [
        (0, f"What the gain is made of: {gain.sentence}", "What each has added to the reward since the first steps."),
        (1, f"Over the steps: {', '.join(s.words for s in gain.shares)}", "Bands: first and last steps, over prompts."),
    ]
    return panels(pictures, figure, told, "half")


def _gain(gain: Decomposition) -> PageTable:
    sides = (f"steps {a:g} to {b:g}" for a, b in (gain.first, gain.last))
    rows = tuple(
        (words(s.words), *(number(_span(x, ".3g")) for x in (s.before, s.after)), number(_span(s.share, ".0%")))
        for s in gain.shares
    )
    heads = head("of the gain", *sides, Cell("share of the gain", term="interval"))
    return PageTable(f"What the gain is made of, by {gain.clusters}", heads, rows)


def _span(x: Interval, form: str) -> str:
    return f"{x.median:{form}} [{x.low:{form}}, {x.high:{form}}]" if math.isfinite(x.median) else "no clear gain"


def _onset_caption(d: Diagnosis) -> str:
    if not d.onsets:
        return ""
    mode = max(d.onsets, key=lambda m: d.own[m])
    return f"Dashed: onset of {label_of(mode)}."


def _probabilities(d: Diagnosis) -> PageTable:
    rows = []
    for name in (*ANSWERS, *(n for n in d.own if n not in ANSWERS)):
        p = d.probability.get(name)
        onset = d.onsets.get(name)
        since = "" if onset is None else f"{onset.step.median:.0f} [{onset.step.low:.0f}, {onset.step.high:.0f}]"
        rows.append(
            (
                words(label_of(name), term=label_of(name), mark=name == d.leads),
                number("" if p is None else probability_text(p), mark=name == d.leads),
                number(f"{d.prior[name]:.2f}" if name in d.prior else ""),
                number(probability_text(d.own[name]) if name in d.own else ""),
                number(since),
            )
        )
    heads = head(
        "answer",
        Cell("probability", term="probability"),
        Cell("prior", term="prior"),
        Cell("under way", term="under way"),
        Cell("since step", term="onset"),
    )
    return PageTable("Probability of each answer", heads, tuple(rows))


def _evidence(d: Diagnosis) -> PageTable:
    def lines(name: str, e: ModeEvidence) -> list[tuple[Cell, ...]]:
        return [
            (
                words(label_of(name) if i == 0 else ""),
                words(q.meaning or q.name.replace("_", " ")),
                *estimate(q.posterior),
                words(q.unit),
            )
            for i, q in enumerate(e.quantities)
        ]

    level = f"{d.about.interval_level:.0%}"
    heads = head("of", "quantity", "median", Cell(f"{level} interval", term="interval"), "unit")
    rows = [line for name, e in d.evidence.items() for line in lines(name, e)]
    return PageTable("The numbers behind the evidence", heads, tuple(rows), folded=True)


def _history(d: Diagnosis) -> PageTable:
    past = d.history
    if past is None:
        return PageTable("", (), ())
    rows = tuple(
        (
            number(f"{past.step[i]:g}"),
            number(str(int(past.rows[i]))),
            words(label_of(said_then), term=label_of(said_then)),
            number(probability_text(float(past.probability[said_then][i]))),
        )
        for i, said_then in enumerate(past.answers)
    )
    heads = head("at step", "rewards seen", Cell("answer", term="history"), "probability")
    return PageTable("What would have been said earlier", heads, rows, folded=True)


def _parts(d: Diagnosis) -> tuple[Part, ...]:
    parts = []
    if d.evidence:
        parts.append(Part("Evidence", tuple(_evidence_line(name, e) for name, e in d.evidence.items())))
    if d.timeline is not None and (told := tuple(_episode_line(e) for e in d.timeline.episodes if e.probable)):
        parts.append(Part("What happened, in order", told))
    remedies = tuple(f"{said(label_of(m))}: {x}" for m, lines in d.remedies.items() for x in lines)
    if remedies:
        parts.append(Part("What to do", remedies))
    if d.history is not None:
        parts.append(Part("What would have been said", (said(d.history.sentence) + ".",)))
    tell = _would_tell(d)
    if tell:
        parts.append(Part("What would tell", tell))
    if d.notes:
        parts.append(Part("Notes", d.notes))
    return tuple(parts)


def _episode_line(e: Episode) -> str:
    until = "goes on" if not e.over else f"to step {e.end.median:.0f} [{e.end.low:.0f}, {e.end.high:.0f}]"
    begun = f"from step {e.onset.median:.0f} [{e.onset.low:.0f}, {e.onset.high:.0f}] ({e.onset.level:.0%})"
    text = f"{label_of(e.mode)} ({probability_text(e.probability)}), {begun}, {until}"
    return said(f"{text}: {e.depth}" if e.depth else text)


def _evidence_line(name: str, e: ModeEvidence) -> str:
    return f"{said(label_of(name))}{weighed_text(e)}: {e.sentence}"


def _would_tell(d: Diagnosis) -> tuple[str, ...]:
    """Which signals the log lacks, and what each would tell; more rows where it has all."""
    out = []
    for name in d.missing:
        of = [m.label for m in all_modes() if name in m.signals]
        out.append(
            f"{_SIGNALS.get(name, said(name.replace('_', ' ')))}: not in the log"
            + (f"; it shows {' and '.join(of)}." if of else ".")
        )
    if d.answer == CANNOT_TELL:
        rows = d.about.rows
        out.append(f"More rows: there are {digits(float(rows), '.0f')}, and what they say could as well be the prior.")
    return tuple(out)
