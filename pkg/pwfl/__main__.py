"""The command `pwfl`, run as `python -m pwfl`."""

from pwfl.cli import main

if __name__ == "__main__":
    main()
