"""docs/presets.md, by which a user chooses a policy: every policy, its settings, and who published its design."""

from __future__ import annotations

import inspect
import re
from importlib import import_module

import pytest

from tenfold.config.policies import POLICIES
from tests.shape.scan import ROOT

PAGE = (ROOT / "docs/presets.md").read_text("utf-8")
PUBLISHED = {
    "tail": ("CursorTouch/Operator-Use", "badlogic/pi-mono"),
    "tiers": ("nijaru/ion",),
    "blocks": ("LazyBouy/phi-core",),
    "threshold": ("achetronic/adk-utils-go",),
    "clip": ("Numina-Systems/constellation",),
}


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_has_a_section_with_all_of_its_settings(policy: str) -> None:
    (section,) = (part for part in PAGE.split("\n## ") if f"`{policy}`" in part.partition("\n")[0])
    settings = set(inspect.signature(POLICIES[policy]).parameters) - {"counter", "summary"}
    assert settings - set(re.findall(r"`(\w+)`", section)) == set()


@pytest.mark.parametrize("design", PUBLISHED)
def test_page_package_and_the_design_s_own_page_say_who_published_it(design: str) -> None:
    own = (ROOT / f"docs/designs/{design}.md").read_text("utf-8")
    assert f"(designs/{design}.md)" in PAGE
    for repository in PUBLISHED[design]:
        assert f"(https://github.com/{repository})" in PAGE
        assert f"(https://github.com/{repository})" in own
        assert repository in str(import_module(f"tenfold.designs.{design}").__doc__)
