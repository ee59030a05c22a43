"""Every format of rollouts: whole, cut, damaged, hostile."""

import gzip
import json
import re
import shutil
import tracemalloc
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bayes_grpo import read_rollouts
from bayes_grpo.common.errors import LogReadError, SettingError
from bayes_grpo.rollouts.completions import question_of
from bayes_grpo.rollouts.files import LONGEST_LINE
from bayes_grpo.rollouts.reading import FORMATS
from tests.helpers.rollouts import GROUP, PROMPTS, STEPS, WRITERS, made, write_prime, write_table, write_trl, write_verl

MADE = made()
WITH_CUT = set(WRITERS) - {"trl"}  # which does not save why a completion ended


@pytest.fixture(scope="module", params=list(WRITERS))
def written(request, tmp_path_factory):
    name, write = WRITERS[request.param]
    return request.param, name, write(tmp_path_factory.mktemp("rollouts"), MADE)


def test_a_format_is_read_whole(written):
    words, name, folder = written
    assert set(FORMATS) == {name for name, _ in WRITERS.values()} | {"slime"}
    found = read_rollouts(folder)
    assert found.format == name
    assert found.size == STEPS * PROMPTS * GROUP
    assert (found.prompt_count, found.group_size, found.prompts_per_step) == (STEPS * PROMPTS, GROUP, PROMPTS)
    np.testing.assert_array_equal(found.step, [c.step for c in MADE])
    np.testing.assert_array_equal(found.reward, [c.reward for c in MADE])
    np.testing.assert_array_equal(found.parts["format"], [c.format for c in MADE])
    np.testing.assert_array_equal(found.parts["correct"], [c.correct for c in MADE])
    same = np.array([c.prompt for c in MADE])
    assert len(np.unique(np.stack([found.prompt, same.astype(np.uint64)]), axis=1).T) == STEPS * PROMPTS
    if words in WITH_CUT:
        np.testing.assert_array_equal(found.truncated, [c.truncated for c in MADE])
    if found.policy_version.max() >= 0:
        np.testing.assert_array_equal(found.policy_version, [c.version for c in MADE])
    everything = found.to_frame().to_csv() + json.dumps(found.to_dict()) + found.sentence + repr(found)
    assert "SECRET" not in everything  # nothing of a text is stored or shown
    assert "\x1b" not in everything


def test_a_damaged_file_loses_only_what_is_damaged(written, tmp_path):
    """The middle file, or the only one, is cut, and every byte of a piece of another is turned over.

    Where one file holds the table of all columns it may be refused.
    """
    folder = written[2]
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    shutil.copytree(folder, tmp_path / "copy")
    broken = tmp_path / "copy" / files[len(files) // 2].relative_to(folder)
    data = broken.read_bytes()
    for damaged in (data[: 2 * len(data) // 3], data[:100] + bytes(255 - b for b in data[100:160]) + data[160:]):
        broken.write_bytes(damaged)
        with suppress(LogReadError) if broken.suffix in (".parquet", ".gz") else nullcontext():
            found = read_rollouts(tmp_path / "copy")
            assert 0 < found.size < len(MADE) or not found.notes
            assert set(found.reward) <= {0.0, 1.0, 2.0}


def test_lines_of_any_kind_are_survived(tmp_path):
    """10 MB of text, markup and terminal codes, deep nesting, broken UTF-8, a number for a text, a line with no end."""
    good = {"input": "a", "output": "\x1b]0;x\x07[red]<script>" * 10, "score": 1.0, "step": 3}
    lines = [
        json.dumps(good).encode(),
        json.dumps(good | {"input": "b" * 10_000_000}).encode(),
        b"[" * 100_000,
        b"{" + b'"a":{' * 50_000,
        b'{"input": "\xff\xfe", "output": 5, "score": 0, "step": 3}',
        json.dumps(good | {"score": "1"}).encode(),
        json.dumps(good | {"score": float("nan")}).encode(),
        json.dumps(good | {"score": 10**400}).encode(),
        json.dumps(good | {"step": 10**300}).encode(),
        json.dumps(good | {f"part \x1b[3{i}m{i}": i for i in range(500)}).encode(),
        b"null", b"", b'{"input": "cut',
    ]  # fmt: skip
    (tmp_path / "3.jsonl").write_bytes(b"\n".join(lines))
    found = read_rollouts(tmp_path)
    assert found.size == 4
    assert found.prompt_count == 3
    assert len(found.parts) == 32
    assert not any(re.search(r"[\x00-\x1f]", name) for name in found.parts)
    assert found.notes[:3] == (
        "3 damaged lines left out",
        "1 file cut off at the end",
        "4 records without a reward or a step left out",
    )


def test_a_line_without_end_takes_no_memory(tmp_path):
    with (tmp_path / "1.jsonl").open("wb") as file:
        file.write(b'{"input": "a", "output": "b", "score": 1, "step": 1}\n{"input": "')
        for _ in range(3 * LONGEST_LINE // 2**20):
            file.write(b"x" * 2**20)
        file.write(b'"}\n{"input": "c", "output": "b", "score": 0, "step": 1}\n')
    tracemalloc.start()
    found = read_rollouts(tmp_path)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.size == 2
    assert found.notes == ("1 line over 64 MB left out",)
    assert most < 2.5 * LONGEST_LINE


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.parquet", "t.jsonl"])
def test_a_plain_table_may_be_of_any_kind(name, tmp_path):
    file = write_table(tmp_path, MADE, name) / name
    found = read_rollouts(file)
    np.testing.assert_array_equal(found.reward, [c.reward for c in MADE])
    np.testing.assert_array_equal(found.policy_version, [c.version for c in MADE])
    assert set(found.parts) == {"format", "correct"}
    other = read_rollouts(file, columns={"reward": "correct"})
    np.testing.assert_array_equal(other.reward, [c.correct for c in MADE])
    with pytest.raises(LogReadError, match="expected a column 'none', found step"):
        read_rollouts(file, columns={"reward": "none"})


def test_what_was_trained_on_is_read_where_nothing_else_is(tmp_path):
    write_prime(tmp_path, MADE, packed=True)
    assert read_rollouts(tmp_path).size == len(MADE)
    for folder in tmp_path.rglob("all"):
        folder.rename(folder.parents[3] / f"all {folder.parts[-3]}")
    assert read_rollouts(tmp_path / "rollouts").size == STEPS * GROUP


def test_training_and_validation_stay_apart(tmp_path):
    write_verl(tmp_path / "train", MADE)
    np.testing.assert_array_equal(read_rollouts(tmp_path).group, np.repeat(np.arange(STEPS * PROMPTS), GROUP))
    write_verl(tmp_path / "val", MADE[: PROMPTS * GROUP])
    assert read_rollouts(tmp_path).size == len(MADE)
    assert read_rollouts(tmp_path, split="eval").size == PROMPTS * GROUP
    (tmp_path / "train").rename(tmp_path.parent / "elsewhere")
    assert read_rollouts(tmp_path).notes == ("split: no train files, read eval",)


def test_weights_of_reward_functions_are_checked_by_the_advantages(tmp_path):
    write_trl(tmp_path, MADE)
    assert not read_rollouts(tmp_path).notes
    found = read_rollouts(tmp_path, weights={"format": 0.1})
    np.testing.assert_allclose(found.reward, [0.1 * c.format + c.correct for c in MADE])
    assert found.notes == ("the sum of the reward functions does not give the saved advantages; state their weights",)


def test_a_question_is_the_same_in_any_template():
    asked = [{"role": "system", "content": "help"}, {"role": "user", "content": "Why?"}]
    for text in (
        "Why?",
        asked,
        "<|im_start|>system\nhelp<|im_end|>\n<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\n",
        "system\nhelp\nuser\nWhy?\nassistant\n",
        "<|start_header_id|>user<|end_header_id|>\n\nWhy?<|eot_id|><|start_header_id|>assistant<|end_header_id|>",
    ):
        assert question_of(text) == "Why?"


def test_what_cannot_be_read_is_one_line_with_a_remedy(tmp_path):
    with pytest.raises(LogReadError, match="expected a file or folder of rollouts, found none"):
        read_rollouts(tmp_path / "none")
    with pytest.raises(LogReadError, match=r"expected rollouts of .*verl.*found nothing"):
        read_rollouts(tmp_path)
    for i in (1, 2):
        (tmp_path / f"{i}.pt").write_bytes(b"PK\x03\x04 pickled")
    with pytest.raises(LogReadError, match=r"pickled torch file, which can run code .* its samples as JSON lines"):
        read_rollouts(tmp_path)
    both = tmp_path / "both"
    write_verl(both, MADE)
    write_prime(both, MADE)
    with pytest.raises(LogReadError, match="expected rollouts of one format, found prime_rl, verl"):
        read_rollouts(both)
    assert read_rollouts(both, format="verl").size == len(MADE)
    wrong: tuple[dict[str, Any], ...] = ({"format": "x"}, {"split": "x"}, {"columns": {"x": "y"}})
    for options in wrong:
        with pytest.raises(SettingError, match="expected"):
            read_rollouts(both, **options)
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "1.jsonl").write_text(json.dumps({"input": "a", "output": "b", "score": None}))
    with pytest.raises(LogReadError, match=r"found none in 1 files of verl \(1 record without a reward"):
        read_rollouts(empty)


def test_packed_data_that_break_off_give_what_came_before(tmp_path):
    rows = ({"input": str(i), "output": "b" * 50, "score": i % 2, "step": 1} for i in range(9999))
    data = gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode())
    (tmp_path / "1.jsonl.gz").write_bytes(data[: len(data) // 2])
    found = read_rollouts(Path(tmp_path))
    assert 1000 < found.size < 9999
    assert "1 file cut off at the end" in found.notes
