import dataclasses

import pytest

from lci_tf.config import probe_protocols
from lci_tf.config.probe_protocols import PROTOCOLS, describe, name_for, resolve


def test_the_head_is_that_of_the_authors():
    """Batch normalisation of momentum 0.975; TF-slim's L2 of 5e-4, which is half the squared norm; momentum 0.9."""
    for protocol in PROTOCOLS.values():
        assert (protocol.bn_momentum, protocol.l2, protocol.momentum) == (0.975, 5e-4 / 2, 0.9)
        assert protocol.learning_rates[0] == (0.0, 0.01 if protocol.name == "own" else 0.1)


def test_rates_where_the_paper_has_none_are_the_authors():
    rates = ((0.0, 0.1), (0.08, 0.01), (0.4, 0.002), (0.7, 0.0004), (0.9, 0.00008))
    for name in ("stl10", "stl10_ablation", "celeba"):
        assert PROTOCOLS[name].learning_rates == rates
        assert "rates" in PROTOCOLS[name].differs
        assert not PROTOCOLS[name].pooled


@pytest.mark.parametrize(
    ("dataset", "name"),
    [
        ("stl10", "stl10"),
        ("tfds:stl10", "stl10"),
        ("celeb_a", "celeba"),
        ("imagenet2012", "imagenet"),
        ("places365_small", "places"),
        ("folder", "own"),
        ("synthetic", "own"),
        ("tfds:oxford_flowers102", "own"),
    ],
)
def test_every_data_set_has_a_protocol(dataset, name):
    assert name_for(dataset) == name


def test_ones_own_images_are_cropped_as_in_pre_training():
    protocol = resolve("own", {}, crop_size=32, resize=40)
    assert (protocol.crop_size, protocol.resize, protocol.changed) == (32, 40, ())
    assert "all of it is ours" in protocol.differs
    unknown = resolve("own", {})
    assert (unknown.crop_size, unknown.resize) == (64, 96)
    assert (resolve("own", {}, crop_size=224).resize) == 336


def test_protocols_of_the_paper_do_not_follow_the_network():
    protocol = resolve("stl10", {}, crop_size=32, resize=40)
    assert protocol == dataclasses.replace(PROTOCOLS["stl10"]) and (protocol.crop_size, protocol.resize) == (64, 96)


def test_flags_instead():
    protocol = resolve("stl10", {"epochs": 2, "batch_size": 64, "learning_rate": 0.01, "layers": ("conv5",), "grid": 4})
    assert (protocol.epochs, protocol.layers, protocol.grid) == (2, ("conv5",), 4)
    assert [rate for _, rate in protocol.learning_rates] == pytest.approx([0.01, 0.001, 2e-4, 4e-5, 8e-6])
    assert [share for share, _ in protocol.learning_rates] == [0.0, 0.08, 0.4, 0.7, 0.9]
    assert set(protocol.changed) == {"epochs", "layers", "grid", "learning_rates"}  # the batch is what it was


def test_resize_scales_with_the_crop():
    assert resolve("stl10", {"crop_size": 32}).resize == 48
    assert resolve("stl10", {"crop_size": 32, "resize": 33}).resize == 33
    assert resolve("own", {"crop_size": 32}, crop_size=64, resize=72).resize == 36


def test_a_crop_larger_than_the_image_is_refused(refusal):
    assert refusal(resolve, "stl10", {"resize": 60}) == "--resize=60: smaller than the crop of 64 pixels"


def test_the_description_says_what_is_not_the_papers():
    text = describe(resolve("places", {"epochs": 3}))
    assert "average-pooled to about 9,000 units" in text and "Places365 is not to be compared" in text
    assert text.splitlines()[-1].split() == ["changed", "by", "flags", "epochs"]
    assert "as in pre-training" in describe(probe_protocols.PROTOCOLS["own"])
    assert "4×4 squares" in describe(resolve("stl10", {"grid": 4}))


def test_ridge_regression_has_no_epochs():
    protocol = resolve("stl10", {})
    text = describe(protocol, "ridge")
    assert "epochs" not in text and "0.1 from" not in text and "ridge regression on centre crops" in text
    facts = probe_protocols.facts(protocol, "ridge")
    assert facts["crop_size"] == 64 and "epochs" not in facts and "l2" not in facts
    assert probe_protocols.facts(protocol)["epochs"] == 700
