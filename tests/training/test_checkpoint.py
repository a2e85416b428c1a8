import jax.numpy as jnp
import numpy as np
import pytest

from ploff.training.checkpoint import load_array, load_header, load_tree, save_array, save_tree
from ploff.utils.errors import PloffError

TREE = {"weight": jnp.arange(6.0).reshape(2, 3), "count": jnp.asarray(7)}
LIKE = {"weight": jnp.zeros((2, 3)), "count": jnp.asarray(0)}


def test_what_was_saved_is_read_back_with_its_header(tmp_path):
    path = tmp_path / "new" / "a.eqx"
    save_tree(path, TREE, {"step": np.int64(3), "sizes": (16, 16)})
    assert load_header(path) == {"step": 3, "sizes": [16, 16]}
    read = load_tree(path, LIKE)
    np.testing.assert_array_equal(read["weight"], [[0, 1, 2], [3, 4, 5]])
    assert int(read["count"]) == 7


def test_an_array_is_read_back_as_it_was(tmp_path):
    for values in (np.arange(6, dtype=np.int32).reshape(2, 3), np.zeros((1, 4), np.float32)):
        save_array(tmp_path / "a.rows", values)
        read = load_array(tmp_path / "a.rows")
        assert (read.dtype, read.shape) == (values.dtype, values.shape)
        np.testing.assert_array_equal(read, values)


def test_a_tree_of_other_shapes_is_refused(tmp_path):
    save_tree(tmp_path / "a.eqx", TREE)
    with pytest.raises(PloffError, match=r"does not hold what was expected .* other settings"):
        load_tree(tmp_path / "a.eqx", {"weight": jnp.zeros((3, 3)), "count": jnp.asarray(0)})


@pytest.mark.parametrize("content", [b"", b"not JSON\n", b"\xff\xfe\n", b"[]\n", b'{"step": 3}\n'])
def test_a_file_that_ploff_did_not_write_is_refused(content, tmp_path):
    (tmp_path / "a.eqx").write_bytes(content)
    for read in (load_header, lambda path: load_tree(path, TREE)):
        with pytest.raises(PloffError, match=r"a\.eqx is not a file of this version of ploff, or it is damaged"):
            read(tmp_path / "a.eqx")


def test_no_byte_of_a_file_can_change_unseen(tmp_path):
    path, rows = tmp_path / "a.eqx", tmp_path / "a.rows"
    save_tree(path, TREE, {"step": 3})
    save_array(rows, np.arange(12, dtype=np.float32))
    for place, read in ((path, lambda: load_tree(path, LIKE)), (rows, lambda: load_array(rows))):
        whole = place.read_bytes()
        for position in range(len(whole)):
            place.write_bytes(whole[:position] + bytes([whole[position] ^ 4]) + whole[position + 1 :])
            with pytest.raises(PloffError, match=r"damaged|another version"):
                read()
        for length in range(0, len(whole), 7):
            place.write_bytes(whole[:length])
            with pytest.raises(PloffError, match="damaged"):
                read()
