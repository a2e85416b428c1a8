"""Configurations are read from text, TOML and JSON; complaints name the field, the rule and the value."""

import dataclasses
from typing import Any, Literal

import pytest

from ploff.agents import METHODS
from ploff.metric.pseudometric import MetricConfig
from ploff.metric.train import MetricTraining
from ploff.utils.config import (
    check_choices,
    check_counts,
    check_not_negative,
    check_positive,
    check_sizes,
    check_within,
    read_assignments,
    renamed_settings,
    structure,
    structure_fields,
    to_plain,
    unknown_setting,
)
from ploff.utils.errors import PloffError, UnknownNameError


@dataclasses.dataclass(frozen=True)
class Inner:
    x: int = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outer:
    sizes: tuple[int, ...] = (1, 2)
    share: float = 1.0
    flag: bool = False
    kind: Literal["a", "b"] = "a"
    limit: int | None = None
    place: str | None = None
    pair: tuple[float, float] | None = None
    inner: tuple[Inner, ...] = ()
    anything: dict[str, Any] = dataclasses.field(default_factory=dict)
    batch_size: int = 1


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"sizes": "64,32"}, {"sizes": (64, 32)}),
        ({"sizes": [64, 32]}, {"sizes": (64, 32)}),
        ({"share": "0.5", "flag": "true"}, {"share": 0.5, "flag": True}),
        ({"share": 2}, {"share": 2.0}),
        ({"limit": "none", "kind": "b"}, {"limit": None, "kind": "b"}),
        ({"place": "none"}, {"place": "none"}),
        ({"place": None}, {"place": None}),
        ({"limit": "10_000"}, {"limit": 10_000}),
        ({"pair": [1, 2]}, {"pair": (1.0, 2.0)}),
        ({"inner": [{"x": "3"}]}, {"inner": (Inner(3),)}),
        ({"anything": {"a": [1]}}, {"anything": {"a": [1]}}),
    ],
)
def test_values_are_read_as_the_types_of_their_fields_and_come_back(content, expected):
    config = structure(Outer, content, "setting")
    assert config == Outer(**expected)
    assert structure(Outer, to_plain(config), "setting") == config


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"batch_size": "0.5"}, "setting of x batch_size is a whole number, got '0.5'"),
        ({"share": "high"}, "setting of x share is a number, got 'high'"),
        ({"flag": "maybe"}, "setting of x flag is true or false, got 'maybe'"),
        ({"kind": "c"}, "setting of x kind is one of a, b, got 'c'"),
        ({"batch": 3}, "setting of x 'batch' is called 'batch_size' now"),
        ({"batc_size": 3}, "unknown setting of x 'batc_size'; did you mean 'batch_size'"),
        ({"inner": [{"y": 1}]}, "unknown field 'y'"),
        ({"pair": [1]}, r"setting of x pair cannot be \[1\]"),
    ],
)
def test_what_cannot_be_read_is_said_in_one_line(content, message):
    with pytest.raises(PloffError, match=message) as error:
        structure(Outer, content, "setting of x")
    assert "\n" not in str(error.value)


def test_every_old_name_leads_to_a_setting_that_there_is():
    configs = [*(method.config_type for method in METHODS.values()), MetricConfig, MetricTraining]
    known = {field.name for kind in configs for field in dataclasses.fields(kind)}
    known |= {"neighbor_parts", "exploration_noise"}  # of suites, and of learning online
    for old, new in renamed_settings().items():
        assert set(new) <= known, old


def test_an_old_name_that_is_still_a_setting_elsewhere_is_renamed_only_where_it_is_not():
    assert structure_fields(MetricConfig, {"state_weight": "0.5"}, "setting") == {"state_weight": 0.5}
    prdc = METHODS["prdc"].config_type
    error = unknown_setting("setting of prdc", "state_weight", [field.name for field in dataclasses.fields(prdc)])
    assert str(error) == "setting of prdc 'state_weight' is called 'beta' now"
    assert isinstance(unknown_setting("setting", "batch", ["other"]), UnknownNameError)


def test_assignments_are_names_and_values():
    assert read_assignments(["a=1", "b=x=y"]) == {"a": "1", "b": "x=y"}
    for text in ("a", "=1"):
        with pytest.raises(PloffError, match="NAME=VALUE"):
            read_assignments([text])


@dataclasses.dataclass
class Settings:
    value: Any
    kind: Literal["a", "b"] = "a"


@pytest.mark.parametrize(
    ("check", "good", "bad", "rule"),
    [
        (check_positive, 0.1, 0, "must be positive"),
        (check_not_negative, 0, -1, "must not be negative"),
        (check_counts, 1, 0.5, "must be a whole number, at least 1"),
        (check_sizes, (1,), (), "needs sizes of at least 1"),
        (lambda config, name: check_within(config, "[0, 1)", name), 0, 1, r"must lie in \[0, 1\)"),
        (lambda config, name: check_within(config, "(0, 1]", name), 1, 0, r"must lie in \(0, 1\]"),
    ],
)
def test_checks_name_the_field_the_rule_and_the_value(check, good, bad, rule):
    check(Settings(good), "value")
    with pytest.raises(PloffError, match=f"value {rule}, got"):
        check(Settings(bad), "value")


def test_a_choice_that_there_is_not_is_refused():
    check_choices(Settings(1))
    with pytest.raises(PloffError, match="kind is one of a, b, got 'c'"):
        check_choices(Settings(1, kind="c"))  # pyright: ignore[reportArgumentType]
