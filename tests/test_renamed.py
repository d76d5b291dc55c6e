"""Old names are found wherever they stand."""

import sys

from conftest import ROOT

sys.path.insert(0, str(ROOT / "docs"))
import renamed


def test_an_old_name_is_found_as_a_whole_word(monkeypatch, tmp_path):
    monkeypatch.setattr(renamed, "ROOT", tmp_path)
    (tmp_path / "a.py").write_text("x = frame['rho_alone']\ny = 'rho_alone_too'\n")
    names = renamed.old_names((ROOT / "docs/upgrading.md").read_text(encoding="utf-8"))
    assert {"rho_alone", "air_seconds_so_far", "link_budget"} <= set(names)
    assert renamed.uses(names, [tmp_path / "a.py"]) == ["a.py:1: rho_alone"]
