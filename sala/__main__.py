"""`python -m sala`, and the `sala` command."""

import sys


def main() -> None:
    try:
        from sala import cli

        cli.main()
    except KeyboardInterrupt:  # haste: nothing has begun
        print("stopped", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
