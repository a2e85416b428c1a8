"""Checks annotations when functions are called; an int counts as a float, as Python's own checkers have it."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
