"""`python -m pwfl.testing NAME`."""

from pwfl.entrance import command
from pwfl.testing import main

command(main)
