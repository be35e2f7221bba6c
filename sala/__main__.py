"""`python -m sala`, and the `sala` command."""

import sys


def main() -> None:
    try:
        from sala.cli.app import main as command

        command()
    except KeyboardInterrupt:  # haste: nothing has begun
        print("stopped", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
