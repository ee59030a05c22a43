"""A saved fit may come from a stranger, or from a disk that forgot a bit: one line says so, and that is all."""

import random
from contextlib import chdir
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import h5py
import numpy as np
import pytest

from bayes_grpo.common.errors import FitFileError
from bayes_grpo.fitting.file import load_fit
from tests.helpers.saved_fit import save, saved_tree, with_attribute
from tests.helpers.selection import few


def refused(path) -> str:
    with pytest.raises(FitFileError) as error:
        load_fit(path)
    message = str(error.value)
    assert str(path) in message
    assert "\n" not in message
    assert len(message) < 1_000
    return message


@cache
def content() -> bytes:
    """The bytes of a whole fit; writing one takes a second."""
    with TemporaryDirectory() as folder:
        return save(saved_tree(), Path(folder) / "fit.nc").read_bytes()


@pytest.fixture
def whole(tmp_path) -> Path:
    """A file with a whole fit."""
    (tmp_path / "fit.nc").write_bytes(content())
    return tmp_path / "fit.nc"


def test_a_loaded_fit_needs_its_file_no_more(whole):
    """`DataTree.load` leaves a variable in the file that has the name of a group."""
    fit = load_fit(whole)
    whole.unlink()
    for node in fit.data.subtree:
        for variable in node.dataset.variables.values():
            assert variable.to_numpy().shape == variable.shape


def test_a_whole_one_is_read(whole, tmp_path):
    fit = load_fit(whole)
    assert fit.as_draws.values["fixed_point"].shape == (2, 6)
    assert fit.about.rows == 8
    with pytest.raises(FitFileError, match="no such file"):
        load_fit(tmp_path / "absent.nc")


def test_a_tree_that_arviz_saved_is_read_and_one_without_its_groups_is_not(tmp_path):
    """It carries no checksum; its groups say whether it is a fit."""
    tree = saved_tree()
    stats = tree["sample_stats"].dataset
    tree["sample_stats"].dataset = stats.assign(diverging=stats["diverging"] > 0.5)
    tree.to_netcdf(tmp_path / "tree.nc")
    fit = load_fit(tmp_path / "tree.nc")
    for name in ("fixed_point", "relaxation_time"):
        np.testing.assert_array_equal(fit.draws(name), tree["posterior"][name].to_numpy())
    assert load_fit(save(fit.data, tmp_path / "again.nc")).priors == fit.priors
    del tree["observed_data"]
    tree.to_netcdf(tmp_path / "less.nc")
    assert "fit the log again" in refused(tmp_path / "less.nc")


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
]


@pytest.mark.parametrize(("name", "value", "said"), few(ATTRIBUTES, "layout is version 99", by=lambda case: case[2]))
def test_attributes_of_another_type(tmp_path, name, value, said):
    assert said in refused(save(with_attribute(saved_tree(), name, value), tmp_path / "fit.nc"))


CHANGES = {
    "changed attribute": lambda file: file.attrs.update(series="soon"),
    "missing attribute": lambda file: file["posterior/fixed_point"].attrs.pop("units"),
    "changed number": lambda file: file.attrs.update(convergence=file.attrs["convergence"].replace("900", "90")),
    "missing group": lambda file: file.pop("posterior"),
    "missing variable": lambda file: file.pop("observed_data/y"),
}


@pytest.mark.parametrize("change", few(CHANGES, "changed number"))
def test_a_file_that_was_changed_after_it_was_written(whole, change):
    with h5py.File(whole, "a") as file:
        CHANGES[change](file)
    assert "found a changed one" in refused(whole)


FORGED = [
    ("sampled_levels", None),
    ("sampled_levels", "no such"),
    ("priors", '{"fixed_point": [1.0, "wide", null, ""]}'),
    ("settings", None),
    ("settings", '{"momentum": [0.9, "heard of", ""]}'),
    ("convergence", '[{"fixed_point": [1.0, 900.0]}, 0, 1.0, false]'),
    ("series", "[1"),
    ("series", '{"signal": "reward"}'),
    ("window", None),
]


@pytest.mark.parametrize(("name", "value"), few(FORGED, FORGED[1]))
def test_records_that_no_fit_has_under_a_checksum_of_their_own(tmp_path, name, value):
    refused(save(with_attribute(saved_tree(), name, value), tmp_path / "fit.nc"))


LARGE = {"shape": (10**7, 10**6), "dtype": "f8", "chunks": (1000, 1000), "compression": "gzip"}
ATTACKS = {
    "claims of": lambda file: file.create_dataset("bomb", **LARGE),
    "'theirs' lies elsewhere": lambda file: file.create_dataset("theirs", (10,), "f8", external=[("secret", 0, 80)]),
    "found a link under 'self'": lambda file: file["posterior"].update(self=h5py.SoftLink("/posterior")),
    "without end": lambda file: file["posterior"].update(again=file["/"]),
}


@pytest.mark.parametrize("said", ATTACKS)
def test_arrays_that_lie_elsewhere_or_are_larger_than_memory(whole, tmp_path, said):
    (tmp_path / "secret").write_bytes(bytes(1_000))
    with chdir(tmp_path), h5py.File(whole, "a") as file:
        ATTACKS[said](file)
    assert said in refused(whole)


@pytest.mark.parametrize("seed", few(range(12), 0, 1))
def test_bits_that_flipped_and_files_that_were_cut(tmp_path, seed):
    """Whatever is left of the file, it is read as a fit or refused in a line."""
    rng = random.Random(seed)
    data = bytearray(content())
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
