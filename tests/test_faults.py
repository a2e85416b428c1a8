"""The campaign of faults in short: some damaged files of every format. `benchmarks/faults.py` is the long one."""

import collections
import itertools
import pathlib
import random

import pytest

ROOT = pathlib.Path(__file__).parents[1]
SOUND = {"same", "refused", "changed"}
CHECKED = ("a.hdf5", "a.npz", "a.parquet")  # formats whose checksums see what changed


@pytest.fixture(scope="module")
def faults(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        import faults  # pyright: ignore[reportMissingImports]

        sound = faults.make_sound_files(tmp_path_factory.mktemp("sound"))
        known = {name: faults._fingerprint(str(path)) for name, path in sound.items()}
        yield faults, sound, known


def outcomes(faults, cases, folder):
    """What came of the cases, by format; in this process, which must survive them."""
    module, sound, known = faults
    found = collections.defaultdict(set)
    for name, fault, damage in cases:
        copy = module.copy_of(sound[name], folder / "case" / name)
        damage(copy)
        found[name].add(module.load_outcome(str(copy), known[name]))
        assert found[name] <= SOUND, f"{name}: {fault}"
    return found


@pytest.mark.filterwarnings("ignore")
def test_damaged_bytes_are_refused_and_never_an_error_of_ploffs_own(faults, tmp_path):
    found = outcomes(faults, faults[0].byte_cases(random.Random(0), faults[1], 180), tmp_path)
    assert set(found) == set(faults[0].FORMATS)
    assert all("changed" not in found[name] for name in CHECKED)


@pytest.mark.filterwarnings("ignore")
def test_broken_structures_are_refused_and_never_an_error_of_ploffs_own(faults, tmp_path):
    every_seventh = itertools.islice(faults[0].fault_structures.cases(), 0, None, 7)
    assert set(outcomes(faults, every_seventh, tmp_path)) == set(faults[0].FORMATS)
