"""Settings in YAML: plain values, and no harm from a hostile file."""

import time

import pytest

from bayes_grpo.stores.files import settings_in


def test_plain_values():
    text = "a: 1\nb:\n  value: 1.0e-06\n  c: [x, 'y: z']\n# no\nd: null\n2: true\n"
    assert settings_in(text) == {"a": 1, "b": {"value": 1e-6, "c": ["x", "y: z"]}, "d": None, "2": True}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "just text",
        "- a\n- b",
        "a: [1, 2",
        "a: !!python/object/apply:os.system ['true']",
        "a: &x [*x, *x, *x]",
        "a: &a [1]\nb: &b [*a, *a]\nc: [*b, *b]",
        "when: 2026-13-45 99:99:99",
        "{[]: 1}",
        "a: " + "[" * 50_000,
        "a: b\n" * 100_000,
        "\x00\x01",
    ],
)
def test_what_is_none_of_it_states_nothing(text):
    begun = time.perf_counter()
    assert settings_in(text) in ({}, {"a": "b"})
    assert time.perf_counter() - begun < 20.0
