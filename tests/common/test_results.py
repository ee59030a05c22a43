"""The dictionary of a result: fields in order, what a class adds or leaves out, values in JSON's types."""

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

    also_in_json = ("verdict",)

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
    picture: object

    level = 0.9
    also_in_json = ("level", "sentence")
    not_in_json = ("picture",)

    @property
    def sentence(self) -> str:
        return "All is well."


def test_a_class_adds_properties_and_leaves_out_fields():
    about = About("run", "reward", 3, 1.0, 3.0)
    found = Whole((Part("a", HERE),), about, np.array([[1.0, math.nan]]), object()).to_dict()
    assert list(found) == ["parts", "about", "draws", "level", "sentence"]
    assert found == {
        "parts": [
            {"name": "a", "value": {"median": 2.0, "low": 1.0, "high": None, "level": 0.9}, "verdict": "a holds"}
        ],
        "about": {"run": "run", "signal": "reward", "rows": 3, "first_step": 1.0, "last_step": 3.0, "source": ""},
        "draws": [[1.0, None]],
        "level": 0.9,
        "sentence": "All is well.",
    }
    json.dumps(found, allow_nan=False)


def test_by_default_json_has_all_fields_in_their_order():
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


def test_a_frame_keeps_the_contents_of_a_result_and_the_numbers_as_they_are():
    table = frame_of([Part("a", HERE)], "name")
    assert list(table.columns) == ["value", "value_low", "value_high", "verdict"]
    assert table.loc["a", "value_high"] == math.inf
