"""A log is a stranger's text: whatever stands in it, reading takes time and memory in proportion to its length."""

import json
import re
import time
from contextlib import suppress

import pytest

from bayes_grpo.common.errors import BayesGrpoError, LogReadError
from bayes_grpo.logs import read_log
from bayes_grpo.logs.keyindex import MAX_COLUMNS
from bayes_grpo.logs.lines import MAX_LINE
from bayes_grpo.stores.records import FILE_HEADER, Damage, leveldb_records
from tests.helpers.command import printed_by
from tests.helpers.patterns import all_patterns, seconds, strains
from tests.helpers.selection import few
from tests.logs.log_samples import assert_read

PATTERNS = all_patterns()
SIZES = (*range(24, 48, 4), 12_000)
"""The short ones find what doubles with every turn, before it goes on for ever."""
HEADS = {
    "console_dict": "{'step': 1, 'reward': 0.5}\n{'step': 2, 'reward': 0.6}\n",
    "console_pairs": "1/9 | reward=0.1\n2/9 | reward=0.2\n3/9 | reward=0.3\n",
    "named_numbers": "step 1 → reward 0.1\nstep 2 → reward 0.2\nstep 3 → reward 0.3\n",
    "progress_bar": "".join(f" 1%|x| {i}/9 [00:01<00:02, 5s/it, reward=0.{i}]\n" for i in (1, 2, 3)),
    "step_blocks": "".join(f"=== Step {i} ===\nreward: 0.{i}\n" for i in (1, 2, 3)),
    "verl_console": "".join(f"step:{i} - critic/score/mean:0.{i}\n" for i in (1, 2)),
}
PIECES = (
    *(" ", "\t", "{'a':1}", "loss=1,", "f(1,", "x=1, ", "| ", "{'", '{"a":', "1/9 [it/s,", "1%|", "a ", "1 ", "\r"),
    *("step ", "\x1b[", "\x1b]", "[repeated 1", "{'a':1,\n", "{'a':1,\n" + "\n" * 500, "(a pid=", "a_", '"', ","),
)
BEGINS = ("", "step:1 - reward:0.5 ", " 1%|x| 4/9 [00:01<00:02, 5s/it, reward=0.5", "{'x': ", "step 1")


def worst(pattern: re.Pattern, ends: tuple[str, ...]) -> float:
    """The longest time over texts of these sizes, or the first that is too long already."""
    longest = 0.0
    for before, piece, end in strains(pattern):
        if (end if isinstance(end, str) else end.decode("latin-1")) not in ends:
            continue
        for size in SIZES:
            taken = seconds(pattern, before + piece * (size // len(piece)) + end)
            if taken > 0.1 and size == SIZES[-1]:  # a slow machine is no slow pattern: a quarter takes a quarter
                quarter = seconds(pattern, before + piece * (size // 4 // len(piece)) + end)
                taken = taken if taken > 8.0 * quarter else 0.1
            longest = max(longest, taken)
            if longest > 0.1:
                return longest
    return longest


SLOWEST = tuple(
    f"logs.{name}"
    for name in (
        *("readers.console_verl._GOES_ON", "readers.blocks._HEADING", "readers.blocks._RULED"),
        *("lines._BAR_TEXT", "cells._STEP_CELL"),
    )
)
"""Patterns with so many parts that all their strains take seconds."""
FOREIGN = tuple(n for n in PATTERNS if n.startswith(("logs.", "stores.", "common.")) and n not in SLOWEST)


def test_the_slowest_patterns_are_there():
    assert set(SLOWEST) <= set(PATTERNS)


@pytest.mark.parametrize("name", few(PATTERNS, *FOREIGN))
def test_every_pattern_takes_linear_time(name):
    assert worst(PATTERNS[name], ("!",)) <= 0.1


@pytest.mark.thorough
@pytest.mark.parametrize("name", PATTERNS)
def test_every_pattern_takes_linear_time_whatever_comes_last(name):
    assert worst(PATTERNS[name], ("", "\x00", " x")) <= 0.1


@pytest.mark.parametrize("pattern", [r"\s*\[repeated \d+x", r"(?:_\w+|/\w+)*$"])
def test_a_pattern_that_takes_longer_is_found(pattern):
    assert worst(re.compile(pattern), ("!",)) > 0.1


@pytest.mark.parametrize("format", few(HEADS, "console_dict", "verl_console"))
@pytest.mark.parametrize("begin", few(BEGINS, "step:1 - reward:0.5 "))
def test_crafted_lines_take_linear_time(write, format, begin):
    for piece in PIECES:
        path = write("a.log", f"{HEADS[format]}{begin}{piece * (60_000 // len(piece))}\n{HEADS[format]}")
        before = time.process_time()
        with suppress(BayesGrpoError):
            read_log(path, format=format)
        assert time.process_time() - before < 1.5, (format, begin, piece)


@pytest.mark.parametrize("format", HEADS)
def test_a_line_that_is_too_long_is_passed_over_with_a_note(write, format):
    text = HEADS[format].replace("\n", "\r\n")
    whole = read_log(write("a.log", text), format=format)
    run = read_log(write("b.log", f"{text}{'x' * (MAX_LINE + 1)}\n"), format=format)
    known = format in ("progress_bar", "step_blocks")  # they know what no line of that length can hold
    note = f"characters passed over, the first is line {text.count(chr(10)) + 1}"
    assert_read(run, *(() if known else (note,)), reward=whole.reward)


def test_long_json_lines_are_passed_over_with_a_note(write, monkeypatch):
    monkeypatch.setattr("bayes_grpo.logs.readers.json_text._MAX_LINE", 100)
    rows = [{"step": s, "reward": s / 10} | ({"text": "x" * 100} if s == 2 else {}) for s in range(1, 5)]
    note = "1 line of more than 100 characters passed over, the first is line 2"
    assert_read(read_log(write("a.jsonl", rows)), note, step=[1, 3, 4])


def test_pieces_of_a_record_without_end_do_not_hang():
    # A first chunk and 150,000 middle ones without a byte in them: their lengths were added up again for each.
    import struct
    import zlib

    def chunk(kind: int) -> bytes:
        return struct.pack("<IHB", zlib.crc32(bytes([kind])), 0, kind)

    data = bytearray(b":W&B\xe1\xbe\x00")
    while len(data) < 1_000_000:
        room = 32_768 - len(data) % 32_768
        data += bytes(room) if room < 7 else chunk(3 if len(data) > FILE_HEADER else 2)
    before, damage = time.process_time(), Damage()
    assert list(leveldb_records(bytes(data), damage)) == []
    assert damage.cut
    assert time.process_time() - before < 2.0


BOMBS = {
    "a key a row": lambda n: "".join(f'{{"step":{i},"reward":0.5,"k{i % 4900}":1}}\n' for i in range(n // 32)),
    "a reward function a row": lambda n: "".join(
        f'{{"step":{i},"reward":1,"rewards/k{i % 4900}/mean":1}}\n' for i in range(n // 40)
    ),
    "an evaluation a row": lambda n: "".join(
        f'{{"step":{i},"reward":1,"val-core/k{i % 4900}/acc/mean@1":1}}\n' for i in range(n // 50)
    ),
    "short rows": lambda n: f"step,reward{',c' * 4000}\n" + f"1,1{',1' * 4000}\n" * 12 + "1\n" * (n // 2),
    "a header alone": lambda n: f"step,reward{',c' * (n // 2)}\n1,2\n2,3\n",
    "a bar a row": lambda n: (
        "{'reward': 1}\n" + "".join(f" 1%|x| 1/{i} [0]\n{{'reward': 0.5}}\n" for i in range(1, n // 35))
    ),
}


@pytest.mark.thorough
@pytest.mark.parametrize("bomb", BOMBS)
def test_memory_stays_in_proportion(write, bomb):
    """A megabyte of text may take 60 MB more, in a process of its own so that nothing hides it."""
    path = write("bomb.log", BOMBS[bomb](1_000_000))
    warm = write("warm.log", "step,reward\n1,1\n2,1\n")
    code = (
        "import resource, sys\nfrom bayes_grpo.logs import read_log\n"
        "from bayes_grpo.common.errors import BayesGrpoError\n"
        "def most(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "read_log(sys.argv[2])\nbefore = most()\n"
        "try: read_log(sys.argv[1])\nexcept BayesGrpoError: pass\n"
        "print(most() - before)"
    )
    assert int(printed_by(code, path, warm)) < 60_000


@pytest.mark.parametrize(("key", "what"), [("rewards/{}/mean", "reward functions"), ("env/{}/reward", "environments")])
def test_too_many_columns_of_one_quantity_are_refused(write, key, what):
    row = json.dumps({"step": 1, "reward": 1} | {key.format(i): 1 for i in range(MAX_COLUMNS + 1)})
    with pytest.raises(LogReadError, match=f"at most {MAX_COLUMNS} {what}, found {MAX_COLUMNS + 1}"):
        read_log(write("a.jsonl", f"{row}\n{row.replace('1', '2', 1)}\n"))
