"""The documentation's pictures are those that docs/ draws from what is committed."""

import sys

import altair as alt
import polars as pl
import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT / "docs"))
import pictures
import systems

DRAWN = {
    "attack rates": (pictures.PICTURE, lambda: pictures.chart(pictures.rates())),
    "systems": (systems.PICTURE, lambda: systems.chart(pl.read_csv(systems.KEPT))),
}


@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_is_what_its_script_draws(name, tmp_path):
    picture, chart = DRAWN[name]
    with alt.theme.enable("default"):  # whatever other tests' charts have enabled
        chart().save(tmp_path / picture.name)
    assert (tmp_path / picture.name).read_bytes() == picture.read_bytes()
