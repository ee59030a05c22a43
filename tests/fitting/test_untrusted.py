"""A saved fit may come from a stranger, or from a disk that forgot a bit: one line says so, and that is all."""

import json
import random

import h5py
import numpy as np
import pytest

from bayes_grpo.common.errors import FitFileError
from bayes_grpo.fitting.file import load_fit
from tests.helpers.saved_fit import save, saved_tree, with_attribute, with_groups
from tests.helpers.selection import few

GROUPS = list(saved_tree().children)


def refused(path) -> str:
    with pytest.raises(FitFileError) as error:
        load_fit(path)
    message = str(error.value)
    assert str(path) in message
    assert "\n" not in message
    assert len(message) < 1_000
    return message


def test_a_whole_one_is_read(tmp_path):
    fit = load_fit(save(saved_tree(), tmp_path / "fit.nc"))
    assert fit.as_draws.values["fixed_point"].shape == (2, 6)
    assert fit.about.rows == 8


@pytest.mark.parametrize("group", few(GROUPS, "posterior"))
def test_missing_groups(tmp_path, group):
    assert f"found none of {group}" in refused(save(with_groups(saved_tree(), **{group: None}), tmp_path / "fit.nc"))


ATTRIBUTES = [
    ("bayes_grpo_format", None, "no bayes_grpo_format"),
    ("bayes_grpo_format", 99, "layout is version 99"),
    ("bayes_grpo_format", "2; rm -rf", "layout is version 2; rm -rf"),
    ("bayes_grpo_format", np.array([2, 2]), "layout is version"),
    ("bayes_grpo_format", 1.5, "layout is version 1.5"),
    ("regime", "[bold]no\nsuch[/bold]", "a fit of regime '[bold]no such"),
    ("regime", 7, "the name of a regime"),
    ("regime", "../../etc/passwd", "a fit of regime"),
    ("model_hash", "0", "has other parameters"),
    ("run_name", 3, "a text in the attribute run_name"),
    ("source", np.array([1, 2]), "a text in the attribute source"),
    ("start", "soon", "a finite number in the attribute start"),
    ("momentum", np.nan, "a finite number in the attribute momentum"),
    ("from_rest", None, "a finite number in the attribute from_rest, found none"),
    ("settings", "[1]", "JSON in the attribute settings"),
    ("settings", '{"a": 1}', "settings with their provenance"),
    ("notes", '{"a": 1}', "JSON in the attribute notes"),
    ("notes", "[1]", "texts in the attribute notes"),
    ("priors", "{}", "a prior of each"),
    ("priors", "[" * 5_000, "JSON in the attribute priors"),
    ("priors", '{"fixed_point": {"median": 1, "evil": 2}}', "a prior of each"),
    ("convergence", "{}", "the sampler's checks"),
    ("convergence", '{"passed": true, "parameters": {"x": {"rhat": "1"}}}', "the sampler's checks"),
    ("sampler", "", "JSON in the attribute sampler"),
]
KEPT = ("layout is version 99", "a fit of regime", "a text in the attribute run_name", "a prior of each")


@pytest.mark.parametrize(("name", "value", "said"), few(ATTRIBUTES, *KEPT, by=lambda case: case[2]))
def test_attributes_of_another_type(tmp_path, name, value, said):
    assert said in refused(save(with_attribute(saved_tree(), name, value), tmp_path / "fit.nc"))


def test_priors_without_a_spread(tmp_path):
    priors = json.loads(saved_tree().attrs["priors"])
    priors["fixed_point"]["spread"] = 0
    tree = with_attribute(saved_tree(), "priors", json.dumps(priors))
    assert "a spread above 0" in refused(save(tree, tmp_path / "fit.nc"))


def test_draws_that_are_not_finite(tmp_path):
    tree = saved_tree()
    tree["posterior"].dataset["fixed_point"].to_numpy()[0, 3] = np.nan
    assert "finite numbers in posterior" in refused(save(tree, tmp_path / "fit.nc"))


def test_shapes_that_disagree(tmp_path):
    tree = saved_tree()
    parts = {name: child.dataset for name, child in tree.children.items()}

    def said_with(**changed) -> str:
        return refused(save(with_groups(tree, **changed), tmp_path / "fit.nc"))

    for group, cut in (("log_likelihood", {"step": slice(3)}), ("sample_stats", {"draw": slice(3)})):
        assert f"found others in {group}" in said_with(**{group: parts[group].isel(cut)})
    rows = parts["observed_data"]
    assert "increasing steps" in said_with(observed_data=rows.assign_coords(step=np.zeros(8)))
    words = said_with(observed_data=rows.assign(y=("step", ["x"] * 8)))
    assert "expected numbers over step in observed_data" in words
    assert "found nothing under y" in said_with(observed_data=rows.drop_vars("y"))


def test_arrays_that_lie_elsewhere_or_are_larger_than_memory(tmp_path):
    path = save(saved_tree(), tmp_path / "fit.nc")
    (tmp_path / "secret").write_bytes(bytes(1_000))
    with h5py.File(path, "a") as file:
        file.create_dataset("bomb", shape=(10**7, 10**6), dtype="f8", chunks=(1000, 1000), compression="gzip")
    assert "claims of" in refused(path)
    path = save(saved_tree(), tmp_path / "fit.nc")
    with h5py.File(path, "a") as file:
        file.create_dataset("theirs", shape=(10,), dtype="f8", external=[(str(tmp_path / "secret"), 0, 80)])
    assert "'theirs' lies elsewhere" in refused(path)
    path = save(saved_tree(), tmp_path / "fit.nc")
    with h5py.File(path, "a") as file:
        file["posterior/self"] = h5py.SoftLink("/posterior")
    assert "found a link under 'self'" in refused(path)
    path = save(saved_tree(), tmp_path / "fit.nc")
    with h5py.File(path, "a") as file:
        file["posterior/again"] = file["/"]
    assert "without end" in refused(path)


@pytest.mark.parametrize("seed", few(range(12), 0, 1))
def test_bits_that_flipped_and_files_that_were_cut(tmp_path, seed):
    """Whatever is left of the file, it is read as a fit or refused in a line."""
    rng = random.Random(seed)
    data = bytearray(save(saved_tree(), tmp_path / "fit.nc").read_bytes())
    for _ in range(rng.choice((1, 4, 40))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path = tmp_path / "flipped.nc"
    path.write_bytes(data[: rng.randrange(len(data))] if seed % 3 == 0 else data)
    try:
        load_fit(path)
    except FitFileError:
        refused(path)


CONTENTS = (b"", b"\x89HDF\r\n\x1a\n", b"CDF\x01" + bytes(40), b"GIF89a", b"\x89HDF\r\n\x1a\n" * 99)


@pytest.mark.parametrize("content", few(CONTENTS, b"", b"GIF89a"))
def test_other_files(tmp_path, content, capfd):
    path = tmp_path / "fit.nc"
    path.write_bytes(content)
    assert "expected a NetCDF file written by bayes-grpo" in refused(path)
    assert capfd.readouterr().err == ""
