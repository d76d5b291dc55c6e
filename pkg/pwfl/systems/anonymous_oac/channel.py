"""Channel of the system `anonymous_oac`: Sec. III of Hasircioglu and Gunduz."""

from pwfl.systems.anonymous_oac.fading import draw as run

__all__ = ["run"]
