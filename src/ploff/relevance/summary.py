"""What a relevance says, for people: a row for every column, and a few sentences."""

from ploff.relevance.relevance import Relevance


def column_names(relevance: Relevance) -> list[str]:
    """The names of the columns: their numbers, where the log has no other."""
    return [str(number) for number in range(len(relevance.shares))]


def relevance_rows(relevance: Relevance) -> list[tuple[str, str, str, str]]:
    """Column, share, interval, and whether it is told from noise; the weightiest column first."""
    names, matters = column_names(relevance), relevance.relevant()
    rows = []
    for column in sorted(range(len(names)), key=lambda i: -relevance.shares[i]):
        low, high = relevance.intervals[column]
        word = "" if matters[column] else "nothing that noise has not"
        rows.append((names[column], f"{relevance.shares[column]:.1%}", f"{low:.1%} to {high:.1%}", word))
    return rows


def summary(relevance: Relevance) -> list[str]:
    """How many columns and directions matter, and how well the networks that say so predict."""
    told = sum(relevance.relevant())
    known = ", ".join(f"{name} {max(0.0, 1 - error):.0%}" for name, error in relevance.errors.items())
    return [
        f"{told} of {len(relevance.shares)} columns are told from noise; "
        f"{relevance.kept} of {len(relevance.spectrum)} directions matter",
        f"explained on held-out episodes: {known}",
    ]
