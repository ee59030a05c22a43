"""The dictionary of a result: its fields in order, what a class lists differently, and values in JSON's types."""

import json
import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from bayes_grpo.common.intervals import Interval
from bayes_grpo.common.results import About, Result, frame_of, json_safe

HERE = Interval(2.0, 1.0, math.inf, 0.9)


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True)
class Part(Result):
    name: str
    value: Interval

    in_json = (..., "verdict")

    @property
    def verdict(self) -> str:
        return f"{self.name} holds"


@dataclass(frozen=True)
class Plain:
    a: float
    b: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Whole(Result):
    parts: tuple[Part, ...]
    about: About
    draws: np.ndarray
    seed: int
    picture: object

    in_json = ("sentence", ("table", "parts"), ("level", 0.9), ..., ("meta", ("about.run", "seed")), "best.*")
    not_in_json = ("picture",)

    @property
    def sentence(self) -> str:
        return "All is said."

    @property
    def best(self) -> Interval:
        return self.parts[0].value


def whole() -> Whole:
    about = About("run", "reward", 3, 1.0, 3.0)
    return Whole((Part("a", HERE),), about, np.array([[1.0, math.nan]]), 7, object())


def test_a_listing_says_what_stands_where():
    interval = {"median": 2.0, "low": 1.0, "high": None, "level": 0.9}
    found = whole().to_dict()
    assert list(found) == ["sentence", "table", "level", "draws", "meta", "median", "low", "high"]
    assert found == {
        "sentence": "All is said.",
        "table": [{"name": "a", "value": interval, "verdict": "a holds"}],
        "draws": [[1.0, None]],
        "meta": {"run": "run", "seed": 7},
        **interval,
    }
    json.dumps(found, allow_nan=False)


def test_without_a_listing_all_fields_stand_in_their_order():
    @dataclass(frozen=True)
    class Bare(Result):
        b: int
        a: str

    assert list(Bare(1, "x").to_dict().items()) == [("b", 1), ("a", "x")]


def test_values_in_types_of_json():
    value = {0.5: Plain(math.nan, (1, 2)), 1.0: np.float64(np.inf), 2: Colour.RED, "x": (np.int64(3), np.array([True]))}
    assert json_safe(value) == {"0.5": {"a": None, "b": [1, 2]}, "1": None, "2": "red", "x": [3, [True]]}
    assert type(json_safe(Colour.RED)) is str
    assert json_safe(HERE) == {"median": 2.0, "low": 1.0, "high": None, "level": 0.9}


def test_a_frame_keeps_what_a_result_lists_and_the_numbers_as_they_are():
    table = frame_of([Part("a", HERE)], "name")
    assert list(table.columns) == ["value", "value_low", "value_high", "verdict"]
    assert table.loc["a", "value_high"] == math.inf
