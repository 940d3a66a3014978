import dataclasses
import itertools
import sys

import numpy as np
import pytest

from lci_tf import transforms
from lci_tf.config import presets

SETTINGS = presets.resolve("stl10", {})
LABELS = {"rot": ("rot90", "rot180", "rot270"), "warp": ("warp",), "lci": ("lci",)}
ORDERS = [names for count in (1, 2, 3) for names in itertools.permutations(LABELS, count)]


@pytest.mark.parametrize("names", ORDERS, ids="+".join)
def test_labels_have_no_gaps_and_keep_the_order(names):
    created = transforms.create(names, SETTINGS)
    expected = ("identity", *(label for name in names for label in LABELS[name]))
    assert transforms.labels_of(created) == expected


def test_settings_reach_the_transformations():
    settings = dataclasses.replace(
        SETTINGS, warp_grid=5, warp_strength=0.2, patch_size=40, border=3, noise_scale=0.1, random_warp_points=True
    )
    warp, lci = transforms.create(("warp", "lci"), settings, 100)
    assert (warp.draws, warp.largest, warp.random_points) == ((25, 4), 20.0, True)
    assert (lci.patch_size, lci.border, lci.noise_scale) == (40, 3, 0.1)
    assert transforms.create(("warp",), SETTINGS)[0].size == 80
    (tiles,) = transforms.create(("tiles",), dataclasses.replace(SETTINGS, tiles=2, seam=6), 64)
    assert (tiles.size, tiles.tiles, tiles.seam) == (64, 2, 6)


USERS_MODULE = """
from lci_tf.transforms import Transformation

class Negative(Transformation):
    labels = ("negative",)

    def __call__(self, images, draws):
        return [-images]

class Twice(Negative):
    labels = ("warp",)

class NeedsArguments(Negative):
    def __init__(self, strength):
        self.strength = strength

class OfSettings(NeedsArguments):
    @classmethod
    def from_settings(cls, settings, size):
        return cls(settings.warp_strength * size)

class Unfinished(Transformation):
    labels = ("unfinished",)

class Nameless(Transformation):
    def __call__(self, images, draws):
        return [images]

class Stranger:
    labels = ("stranger",)

def function():
    pass
"""


@pytest.fixture
def users_module(tmp_path, monkeypatch):
    (tmp_path / "my_transforms.py").write_text(USERS_MODULE)
    (tmp_path / "needs_more.py").write_text("import there_is_no_such_package")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in ("my_transforms", "needs_more"):
        sys.modules.pop(name, None)


def test_a_users_transformation_is_imported(users_module):
    created = transforms.create(("rot", "my_transforms:Negative", "lci"), SETTINGS)
    assert transforms.labels_of(created) == ("identity", "rot90", "rot180", "rot270", "negative", "lci")
    images = np.ones([2, 4, 4, 3], np.float32)
    np.testing.assert_array_equal(created[1](images, np.zeros([2, *created[1].draws]))[0], -images)


def test_a_users_transformation_may_be_created_from_settings(users_module):
    (created,) = transforms.create(("my_transforms:OfSettings",), SETTINGS, 50)
    assert created.strength == 5.0


MISTAKES = {
    "no_such_module:Negative": "no module no_such_module",
    "my_transforms.sub:Negative": "no module my_transforms.sub",
    "my_transforms:Positive": "module my_transforms has no Positive",
    "my_transforms:Stranger": "is not a subclass of lci_tf.transforms.Transformation",
    "my_transforms:function": "is not a subclass of lci_tf.transforms.Transformation",
    "my_transforms:NeedsArguments": "needs arguments",
    "my_transforms:Unfinished": "has no __call__",
    "my_transforms:Nameless": "has no labels",
    "my_transforms:": "unknown; expected",
    ":Negative": "unknown; expected",
    "my_transforms.Negative": "unknown; expected",
    "turn": "unknown; expected some of rot,warp,lci, or MODULE:CLASS",
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_name_the_flag(users_module, refusal, name):
    message = refusal(transforms.create, (name,), SETTINGS)
    assert message.startswith(f"--transforms={name}: ") and MISTAKES[name] in message


def test_what_a_users_module_lacks_is_not_blamed_on_the_flag(users_module):
    with pytest.raises(ModuleNotFoundError, match="there_is_no_such_package"):
        transforms.create(("needs_more:Negative",), SETTINGS)


def test_two_classes_of_one_name_are_refused(users_module, refusal):
    created = transforms.create(("warp", "my_transforms:Twice"), SETTINGS)
    assert "two classes named warp" in refusal(transforms.labels_of, created)
