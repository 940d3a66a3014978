import pytest

from lci_tf.config.finetune_protocols import PROTOCOLS, describe, name_for, resolve


def test_the_papers_protocol_for_stl10():
    protocol = resolve("stl10", {}, 64, 96)
    assert (protocol.epochs, protocol.batch_size, protocol.multi_crop, protocol.validation) == (300, 64, True, 0)
    assert protocol.learning_rate == protocol.pretrained_learning_rate == 3e-4  # those of its pre-training
    assert (protocol.from_layer, protocol.crop_size, protocol.resize, protocol.changed) == (None, 64, 96, ())


@pytest.mark.parametrize(
    ("dataset", "few", "expected"),
    [("stl10", False, "stl10"), ("stl10", True, "few_labels"), ("folder", False, "few_labels")],
)
def test_which_protocol(dataset, few, expected):
    assert name_for(dataset, few) == expected


def test_crops_are_those_of_the_pretraining_unless_given():
    sizes = [({}, (64, 96)), ({"crop_size": 32}, (32, 48)), ({"resize": 80}, (64, 80))]
    for given, expected in sizes:
        protocol = resolve("few_labels", given, 64, 96)
        assert (protocol.crop_size, protocol.resize) == expected
        assert protocol.changed == tuple(given)
    unknown = resolve("few_labels", {})
    assert (unknown.crop_size, unknown.resize) == (64, 96)


def test_a_crop_larger_than_the_image_is_refused(refusal):
    assert refusal(resolve, "stl10", {"resize": 60}, 64, 96) == "--resize=60: smaller than the crop of 64 pixels"


def test_the_description_lists_what_is_done():
    text = describe(resolve("few_labels", {"from_layer": "conv3", "epochs": 7}, 64, 96))
    for part in ("from conv3 up", "7, or 30 without improvement", "0.0001 for pre-trained", "20 % of", "centre",
                 "changed by flags             from_layer, epochs"):  # fmt: skip
        assert part in text
    assert "pre-trained" not in describe(resolve("few_labels", {}), pretrained=False)
    assert "ten crops" in describe(resolve("stl10", {})) and "without improvement" not in describe(resolve("stl10", {}))
    assert all(protocol.name == name for name, protocol in PROTOCOLS.items())
