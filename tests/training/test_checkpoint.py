import jax.numpy as jnp
import numpy as np
import pytest

from ploff.training.checkpoint import load_header, load_tree, save_tree
from ploff.utils.errors import PloffError

TREE = {"weight": jnp.arange(6.0).reshape(2, 3), "count": jnp.asarray(7)}


def test_what_was_saved_is_read_back_with_its_header(tmp_path):
    path = tmp_path / "new" / "a.eqx"
    save_tree(path, TREE, {"step": np.int64(3), "sizes": (16, 16)})
    assert load_header(path) == {"step": 3, "sizes": [16, 16]}
    read = load_tree(path, {"weight": jnp.zeros((2, 3)), "count": jnp.asarray(0)})
    np.testing.assert_array_equal(read["weight"], [[0, 1, 2], [3, 4, 5]])
    assert int(read["count"]) == 7


def test_a_tree_of_other_shapes_is_refused(tmp_path):
    save_tree(tmp_path / "a.eqx", TREE)
    with pytest.raises(PloffError, match=r"does not hold what was expected .* other settings"):
        load_tree(tmp_path / "a.eqx", {"weight": jnp.zeros((3, 3)), "count": jnp.asarray(0)})


@pytest.mark.parametrize("content", [b"", b"not JSON\n", b"\xff\xfe\n"])
def test_a_file_that_ploff_did_not_write_is_refused(content, tmp_path):
    (tmp_path / "a.eqx").write_bytes(content)
    for read in (load_header, lambda path: load_tree(path, TREE)):
        with pytest.raises(PloffError, match=r"a\.eqx is not a file that ploff wrote, or it is damaged"):
            read(tmp_path / "a.eqx")
