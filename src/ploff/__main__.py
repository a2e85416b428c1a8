"""The command's entry: Ctrl-C is taken in hand before anything large is imported."""

from ploff.utils import interrupts


def main() -> None:
    """Runs the command line."""
    with interrupts.handled():
        from ploff import cli

        cli.main()


if __name__ == "__main__":
    main()
