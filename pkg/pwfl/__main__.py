"""`python -m pwfl`: the command `pwfl`."""

from pwfl.cli import main

if __name__ == "__main__":
    main()
