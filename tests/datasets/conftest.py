import pytest


@pytest.fixture(autouse=True)
def _no_other_data(tmp_path_factory, monkeypatch):
    empty = tmp_path_factory.mktemp("empty")
    monkeypatch.delenv("PLOFF_DATA", raising=False)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(empty / "minari"))
    monkeypatch.chdir(empty)
