"""The tasks: answers by another computation, and two disjoint parts."""

import numpy as np
import pytest

from benchmarks.lab.tasks import END, PAD, make_task

SIZES = [("modular_sum", {"size": 5}), ("sorting", {"length": 3, "symbols": 4}), ("brackets", {"length": 4})]


def both_parts(task):
    prompts = np.vstack([task.train, task.held_out])
    return prompts.tolist(), np.vstack([task.train_answer, task.held_out_answer]).tolist()


def meaning(answer):
    """Tokens before the end, after a check that one end and nothing but padding follow."""
    end = answer.index(END)
    assert answer[end + 1 :] == [PAD] * (len(answer) - end - 1)
    assert PAD not in answer[:end]
    return answer[:end]


def test_sums():
    prompts, answers = both_parts(make_task("modular_sum", size=7))
    assert len(prompts) == 49
    for (a, plus, b, equals), answer in zip(prompts, answers, strict=True):
        assert (plus, equals) == (9, 10)
        assert meaning(answer) == [(a - 2 + b - 2) % 7 + 2]


def test_sorting():
    prompts, answers = both_parts(make_task("sorting", length=4, symbols=3))
    assert len(prompts) == 3**4
    for (*symbols, arrow), answer in zip(prompts, answers, strict=True):
        assert arrow == 5
        counts = [symbols.count(2 + x) for x in range(3)]
        assert meaning(answer) == [2 + x for x in range(3) for _ in range(counts[x])]


@pytest.mark.parametrize("length", [2, 4, 6])
def test_brackets(length):
    prompts, answers = both_parts(make_task("brackets", length=length))
    signs = dict(zip((2, 3, 4, 5), "([)]", strict=True))
    for (*text, arrow), answer in zip(prompts, answers, strict=True):
        assert arrow == 6
        # What is asked and what is answered together cancel to nothing, pair by pair.
        left = "".join(signs[x] for x in text + meaning(answer))
        while left != (left := left.replace("()", "").replace("[]", "")):
            pass
        assert left == ""
    assert length == 2 or len({len(meaning(a)) for a in answers}) > 1


@pytest.mark.parametrize(("name", "sizes"), SIZES)
def test_no_prompt_is_on_both_sides(name, sizes):
    task = make_task(name, held_out=0.3, seed=3, **sizes)
    train, held = ({tuple(x) for x in part.tolist()} for part in (task.train, task.held_out))
    assert not train & held
    assert len(train) == len(task.train)
    assert len(held) == round(0.3 * (len(task.train) + len(task.held_out)))
    assert max(task.train.max(), task.train_answer.max(), task.held_out.max()) < task.vocabulary


@pytest.mark.parametrize(("name", "sizes"), SIZES)
def test_the_seed_decides(name, sizes):
    first, again, other = (make_task(name, seed=s, **sizes) for s in (0, 0, 1))
    assert np.array_equal(first.train, again.train)
    assert np.array_equal(first.held_out_answer, again.held_out_answer)
    assert not np.array_equal(first.train, other.train)
