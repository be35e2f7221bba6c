"""`python -m sala`."""

from sala.cli import main

main()
