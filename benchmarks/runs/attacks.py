"""Attacks on everything that is read: `python -m benchmarks.runs.attacks --minutes 10`, or `--cases 6000 --keep`.

Every case has a seed. A case survives where what is read is a result or the package's own error of one line, within
`SECONDS`. What does not is printed with its kind and seed, and goes into `tests/corpus/` as text once it is mended.
Files that a C library opens are read in a child process, so that a crash is one case and not the end.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import h5py

from bayes_grpo.batches.table import finished_rows, table_of
from bayes_grpo.common.errors import BayesGrpoError, FitFileError
from bayes_grpo.fitting.file import load_fit
from bayes_grpo.logs import read_log
from bayes_grpo.logs.options import read_sidecar
from bayes_grpo.logs.picking import all_readers
from bayes_grpo.watching.watch import load_memory
from benchmarks.common import keep, say
from tests.helpers.patterns import all_patterns, seconds, strains
from tests.helpers.saved_fit import save, saved_tree
from tests.helpers.stores import WRITERS
from tests.helpers.trainer_samples import SAMPLES

SEED = 20_261_124
SECONDS = 10.0
CORPUS = Path(__file__).resolve().parents[2] / "tests" / "corpus"
_PIECES = (
    *("step:3 - critic/score/mean:0.5", "{'reward': 0.1}", "{'reward': '", "}", "{", "\r", "\n", "\x1b[31m", "\x1b]0;"),
    *("1/9 | reward=0.1 | acc=50%", "Step 3: reward 0.4, loss 1", "step,reward\n1,2\n2,3\n", '"', "'", "\\", "\t", " "),
    *(" 10%|██ | 1/9 [00:01<00:02, 5s/it, reward=0.1]", "(TaskRunner pid=1) ", "[" * 300, "{'a':" * 30, "\x00"),
    *("nan", "-inf", "1e999", "9" * 400, "null", '{"step": 1, "reward": 0.5}\n', "=== Step 3 ===\nreward: 0.3\n"),
    *("</script><script>alert(1)</script>", "[bold]x[/bold]", "../../etc/passwd", "$\\frac{", "\u202egnp.exe"),
    *("\ufeff", "_a" * 40, "é" * 50),
)
_VALUES = (
    *(None, True, 10**400, -1, 0, 1.5, "x", "", "[bold]", [], {}, [[[]]], {"a": {"a": {}}}, float("nan"), float("inf")),
)
_ATTRIBUTES = (*(None, 7, 1.5, "x", "[bold]x", "../../x", "[[]]", "{}", '{"a": NaN}', "[" * 3000, "a\nb", "é" * 5000),)


class SlowError(Exception):
    """A case that takes longer than `SECONDS`."""


Case = Callable[[random.Random, Path], None]
"""One attack: a generator and an empty folder; anything but the package's own errors is a defect."""


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Bytes with a few of them flipped, cut, doubled, or with a piece of another kind in their midst."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 6))):
        at = rng.randrange(len(out) + 1)
        way = rng.randrange(6)
        if way == 0 and at < len(out):
            out[at] ^= 1 << rng.randrange(8)
        elif way == 1:
            del out[at:]
        elif way == 2:
            del out[at : at + rng.choice((1, 8, 200))]
        elif way == 3:
            out[at:at] = rng.choice(_PIECES).encode("utf-8", "replace") * rng.choice((1, 1, 40, 2_000))
        elif way == 4:
            out[at:at] = out[at : at + rng.choice((4, 60, 2_000))] * rng.choice((1, 3, 50))
        elif at < len(out):
            out[at : at + 8] = rng.randbytes(8)
    return bytes(out[:2_000_000])


def _texts() -> list[bytes]:
    rows = [(s, {"reward": 0.1 * s, "loss": 0.1, "kl": 0.01}) for s in range(1, 7)]
    found = []
    for sample in SAMPLES:
        if sample.file is not None:
            found.append(sample.file[1](sample.rows("file")).encode())
        if sample.console is not None:
            found.append("\n".join(sample.console(s, row) for s, row in sample.rows("console")).encode())
    lines = [json.dumps({"step": s, **row}) for s, row in rows]
    found += ["\n".join(lines).encode(), f"[{','.join(lines)}]".encode(), b"step,reward\n1,0.1\n2,0.2\n3,0.3\n"]
    found.append(json.dumps({"log_history": [{"step": s, **row} for s, row in rows], "max_steps": 9}).encode())
    found.append("".join(f"{{'loss': 0.1, 'reward': {0.1 * s}, 'step': {s}}}\n" for s, _ in rows).encode())
    return found


def _stores(folder: Path) -> list[tuple[Path, bytes]]:
    rows = [(s, {"reward": 0.1 * s, "loss": 0.1}) for s in range(1, 7)]
    found = []
    for name in ("wandb", "tensorboard", "trackio", "mlflow"):
        path = WRITERS[name](folder / name, rows)
        files = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
        found += [(p, p.read_bytes()) for p in files]
    return found


def cases(folder: Path) -> dict[str, Case]:
    """Kind of attack → one case of it."""
    texts, stores, patterns = _texts(), _stores(folder / "stores"), all_patterns()
    corpus = [p.read_bytes() for p in sorted(CORPUS.glob("*")) if p.is_file()]
    formats = [None, *all_readers()]
    fit = save(saved_tree(), folder / "whole.nc").read_bytes()
    spots = [i for key in (b"OHDR", b"FRHP", b"BTHD", b"TREE", b"HEAP", b"OCHK", b"FSHD") for i in _places(fit, key)]

    def text(rng: random.Random, place: Path) -> None:
        path = place / rng.choice(("a.log", "a.csv", "a.jsonl", "trainer_state.json"))
        path.write_bytes(mutated(rng.choice(texts + corpus), rng))
        read_log(path, format=rng.choice(formats) if rng.random() < 0.3 else None)

    def pieces(rng: random.Random, place: Path) -> None:
        path = place / "a.log"
        chosen = [rng.choice(_PIECES) * rng.choice((1, 1, 1, 30, 3_000)) for _ in range(rng.randrange(1, 20))]
        path.write_text("".join(chosen)[:1_000_000], encoding="utf-8", errors="replace")
        read_log(path, format=rng.choice(formats))

    def records(rng: random.Random, place: Path) -> None:
        keys = (
            "step",
            "reward",
            "loss",
            "eval_reward",
            "config",
            "type",
            "rewards/a/mean",
            "epoch",
            "val-core/x/mean@1",
        )
        rows = [
            {rng.choice(keys): rng.choice((*_VALUES, 0.5, s, s)) for _ in range(rng.randrange(1, 7))} | {"step": s}
            for s in range(rng.randrange(1, 12))
        ]
        path = place / "a.jsonl"
        path.write_text("\n".join(map(json.dumps, rows)) if rng.random() < 0.5 else json.dumps({"log_history": rows}))
        read_log(path)

    def store(rng: random.Random, place: Path) -> None:
        whole, data = rng.choice(stores)
        path = place / whole.name
        path.write_bytes(mutated(data, rng))
        read_log(path)

    def pattern(rng: random.Random, place: Path) -> None:
        chosen = rng.choice(list(patterns.values()))
        before, piece, end = rng.choice(list(strains(chosen)))
        for size in (24, 32, 40, 12_000):
            if seconds(chosen, before + piece * (size // len(piece)) + end) > 0.2:
                raise SlowError(f"{chosen.pattern!r} over {before!r} + n × {piece!r} + {end!r}")

    def flipped_fit(rng: random.Random, place: Path) -> None:
        data = bytearray(fit)
        for _ in range(rng.choice((1, 1, 4, 40))):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        _read_fit(bytes(data), place)

    def cut_fit(rng: random.Random, place: Path) -> None:
        _read_fit(fit[: rng.randrange(len(fit))] + (rng.randbytes(50) if rng.random() < 0.3 else b""), place)

    def structure_of_fit(rng: random.Random, place: Path) -> None:
        data = bytearray(fit)
        for _ in range(rng.choice((1, 2, 8))):
            data[min(len(data) - 1, rng.choice(spots) + rng.randrange(200))] = rng.randrange(256)
        _read_fit(bytes(data), place)

    def attribute_of_fit(rng: random.Random, place: Path) -> None:
        path = place / "fit.nc"
        path.write_bytes(fit)
        name = str(rng.choice(list(saved_tree().attrs)))
        value = rng.choice(
            (None, 7, 1.5, "x", "[bold]x", "../../x", "[[]]", "{}", '{"a": NaN}', "[" * 3000, "a\nb", "é" * 5000)
        )
        with h5py.File(path, "a") as file:
            del file.attrs[name]
            if value is not None:
                file.attrs[name] = value
        _one_line(lambda: load_fit(path))

    def batch_journal(rng: random.Random, place: Path) -> None:
        path = place / "t.csv.journal.jsonl"
        row: dict[str, Any] = {"rows": 3, "converged": True, "notes": "x", "p_gain": 0.5}
        row[rng.choice(list(row))] = rng.choice(_VALUES)
        entries = ({"key": "a", "row": row}, rng.choice(_VALUES), {"key": 1, "row": []})
        whole = "\n".join(map(json.dumps, entries)).encode()
        path.write_bytes(mutated(whole, rng) if rng.random() < 0.7 else whole)
        table_of(list(finished_rows(path).values()), ("fit", "forecast", "diagnosis"))

    def memory(rng: random.Random, place: Path) -> None:
        content: Any = {"format": 1, "sounded": {"any": 3.0}, "first": [0.5]}
        _tampered(content, rng)
        path = place / "state.json"
        whole = json.dumps(content).encode()
        path.write_bytes(mutated(whole, rng) if rng.random() < 0.5 else whole)
        load_memory(path)

    def sidecar(rng: random.Random, place: Path) -> None:
        path = place / "bayes_grpo.toml"
        path.write_bytes(mutated(b"[settings]\ngroup_size = 8\nmomentum = 0.9\n", rng))
        read_sidecar(path)

    return {
        "log text, mutated": text,
        "log text, assembled": pieces,
        "records with values of any kind": records,
        "stores of trackers, bytes changed": store,
        "regular expressions, strained": pattern,
        "saved fits, bits flipped": _apart(flipped_fit),
        "saved fits, cut": _apart(cut_fit),
        "saved fits, structure changed": _apart(structure_of_fit),
        "saved fits, attributes changed": attribute_of_fit,
        "journals of fleets": batch_journal,
        "kept state of watches": memory,
        "files of settings": sidecar,
    }


WEIGHTS = {
    "log text, mutated": 12,
    "log text, assembled": 8,
    "records with values of any kind": 6,
    "stores of trackers, bytes changed": 5,
    "regular expressions, strained": 3,
    "saved fits, attributes changed": 1,
}
"""How often a kind comes; the others twice."""


def _places(data: bytes, key: bytes) -> list[int]:
    found, at = [], data.find(key)
    while at >= 0:
        found.append(at)
        at = data.find(key, at + 1)
    return found


def _tampered(content: Any, rng: random.Random) -> None:
    """Puts another value somewhere into a JSON value."""
    while True:
        keys = list(content) if isinstance(content, dict) else list(range(len(content)))
        if not keys:
            return
        key = rng.choice(keys)
        if isinstance(content[key], dict | list) and content[key] and rng.random() < 0.7:
            content = content[key]
            continue
        content[key] = rng.choice(_VALUES)
        return


def _read_fit(data: bytes, place: Path) -> None:
    path = place / "fit.nc"
    path.write_bytes(data)
    _one_line(lambda: load_fit(path))


def _one_line(read: Callable[[], Any]) -> None:
    try:
        read()
    except BayesGrpoError as error:
        if "\n" in str(error) or len(str(error)) > 5_000:
            raise AssertionError(f"a message of several lines: {str(error)[:200]!r}") from None
        raise


def _apart(case: Case) -> Case:
    """The same in a child process: a crash of a library is told, not suffered."""

    def run(rng: random.Random, place: Path) -> None:
        told = place / "defect"
        child = os.fork()
        if child == 0:
            code = 0
            try:
                signal.alarm(int(6 * SECONDS))
                case(rng, place)
            except BayesGrpoError:
                code = _REFUSED
            except BaseException as error:
                told.write_text(f"{type(error).__name__}: {error}")
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            raise AssertionError(f"the process died of {signal.Signals(os.WTERMSIG(status)).name}")
        if told.exists():
            raise AssertionError(told.read_text())
        if os.WEXITSTATUS(status) == _REFUSED:
            raise FitFileError("refused")

    return run


_REFUSED = 3


class Tally(NamedTuple):
    """Cases of a kind and what became of them."""

    tried: int = 0
    survived: int = 0
    refused: int = 0
    slowest: float = 0.0


def attempt(case: Case, seed: int, folder: Path) -> tuple[str, float]:
    """Runs one case: "read", "refused", or what went wrong; and its seconds."""

    def late(*_: object) -> None:
        raise SlowError(f"more than {SECONDS:g} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, 6 * SECONDS)  # a busy machine; the time of the processor is asked below
    begun = time.process_time()
    try:
        with tempfile.TemporaryDirectory(dir=folder) as place, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                _one_line(lambda: case(random.Random(seed), Path(place)))
                said = "read"
            except BayesGrpoError:
                said = "refused"
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    taken = time.process_time() - begun
    return (said if taken < SECONDS or said not in ("read", "refused") else "too slow"), taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--cases", type=int, help="So many cases instead of minutes.")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--only", help="One kind, by a word in its name.")
    parser.add_argument("--keep", action="store_true")
    given = parser.parse_args()
    tallies: dict[str, Tally] = {}
    defects: list[str] = []
    end = time.monotonic() + 60 * given.minutes
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        known = {k: c for k, c in cases(folder).items() if not given.only or given.only in k}
        turns = [k for k in known for _ in range(WEIGHTS.get(k, 2))]
        number = 0
        while number < given.cases if given.cases else time.monotonic() < end:
            kind, seed = turns[number % len(turns)], given.seed + number
            said, taken = attempt(known[kind], seed, folder)
            t, good = tallies.get(kind, Tally()), said in ("read", "refused")
            tallies[kind] = Tally(
                t.tried + 1, t.survived + good, t.refused + (said == "refused"), max(t.slowest, taken)
            )
            if not good:
                defects.append(f"{kind}, seed {seed}: {said[:300]}")
                say(defects[-1])
            number += 1
    result: dict[str, Any] = {
        "seed": given.seed,
        "tried": sum(t.tried for t in tallies.values()),
        "survived": sum(t.survived for t in tallies.values()),
        "kinds": {
            kind: {"tried": t.tried, "survived": t.survived, "refused": t.refused, "slowest, s": round(t.slowest, 2)}
            for kind, t in tallies.items()
        },
        "defects": defects,
    }
    print(json.dumps(result, indent=1, ensure_ascii=False))
    if given.keep:
        keep("attacks", result)
    if defects:
        raise SystemExit(1)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
