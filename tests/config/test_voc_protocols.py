import dataclasses

import pytest

from lci_tf.config import voc_protocols
from lci_tf.config.voc_protocols import CLASSIFICATION, DETECTION, SEGMENTATION, TASKS, describe, resolve


def test_every_task_has_protocols_and_the_first_is_the_default():
    assert list(voc_protocols.PROTOCOLS) == list(TASKS)
    assert resolve("classification", None, {}) == CLASSIFICATION["krahenbuhl"]
    for known in voc_protocols.PROTOCOLS.values():
        assert all(name == protocol.name and protocol.source and protocol.differs for name, protocol in known.items())


def test_the_default_is_krahenbuhls():
    """As his code has it."""
    protocol = CLASSIFICATION["krahenbuhl"]
    assert (protocol.iterations, protocol.batch_size, protocol.learning_rate, protocol.momentum) == (
        80_000,
        16,
        1e-3,
        0.9,
    )
    assert protocol.drops == (10_000, 20_000, 30_000, 40_000, 50_000, 60_000, 70_000) and protocol.factor == 0.5
    assert (protocol.weight_decay, protocol.clip, protocol.bias_rate) == (1e-6, 10, 2)
    assert (protocol.crop_size, protocol.scales, protocol.crops) == (227, (0.5, 2.0), 10)
    assert (protocol.new_deviation, protocol.new_bias, protocol.layers, protocol.rescale) == (0.01, 0.1, "all", True)


def test_deepclusters_differ_in_rate_and_steps():
    whole, few = CLASSIFICATION["deepcluster"], CLASSIFICATION["deepcluster_fc6-8"]
    assert whole.iterations == few.iterations == 150_000
    assert (whole.learning_rate, whole.drops[:2], whole.layers) == (0.001, (20_000, 40_000), "all")
    assert (few.learning_rate, few.drops[:2], few.layers) == (0.003, (5_000, 10_000), "fc6-8")
    assert len(whole.drops) == 7 and len(few.drops) == 29
    assert not whole.rescale and not few.rescale and {whole.start_anew, few.start_anew} == {"fc6-8"}


def test_fast_rcnns_numbers():
    for protocol in DETECTION.values():
        assert (protocol.learning_rate, protocol.momentum, protocol.factor, protocol.batch_size) == (1e-3, 0.9, 0.1, 2)
        assert (protocol.weight_decay, protocol.bias_decay, protocol.bias_rate) == (5e-4, 0, 2)
        assert (protocol.short_side, protocol.longest, protocol.rois, protocol.foreground) == (600, 1000, 128, 0.25)
        assert (protocol.least_foreground, protocol.background) == (0.5, (0.1, 0.5))
        assert (protocol.class_deviation, protocol.box_deviation) == (0.01, 0.001)
        assert (protocol.suppressed, protocol.least_score, protocol.most) == (0.3, 0.05, 100)
    first, second = DETECTION["fast_rcnn"], DETECTION["self_supervised"]
    assert (first.iterations, first.drops, first.fixed) == (40_000, (30_000,), ("conv1",))
    assert (first.train_sides, first.train_longest) == ((600,), 1000)
    assert (second.iterations, second.drops, second.fixed) == (150_000, (50_000, 100_000), ())
    assert (second.train_sides, second.train_longest) == ((480, 576, 688, 864, 1200), 2000)


def test_fcns_numbers():
    for protocol in SEGMENTATION.values():
        assert (protocol.learning_rate, protocol.momentum, protocol.batch_size, protocol.padding) == (
            1e-4,
            0.9,
            20,
            100,
        )
        assert (protocol.weight_decay, protocol.bias_decay, protocol.bias_rate) == (5e-4, 0, 2)
    first, second = SEGMENTATION["fcn32s"], SEGMENTATION["colorization"]
    assert (first.iterations, first.drops) == (100_000, ())
    assert (second.iterations, second.drops, second.factor) == (150_000, (50_000, 100_000), 0.1)


def test_the_rate_drops_at_the_same_shares_of_fewer_iterations():
    short = resolve("classification", "krahenbuhl", {"iterations": 800})
    assert short.drops == (100, 200, 300, 400, 500, 600, 700) and short.changed == ("iterations",)
    assert resolve("classification", None, {"iterations": 800, "drops": (10,)}).drops == (10,)


def test_changed_fields_are_listed():
    changed = resolve("classification", None, {"crop_size": 128, "batch_size": 16})
    assert changed.changed == ("crop_size",)
    assert "changed by flags             crop_size" in describe(changed)
    lines = describe(changed).splitlines()
    assert len(lines) == len(dataclasses.fields(changed)) - 4 + 3
    assert any(line.split() == ["crop", "size", "128"] for line in lines)


@pytest.mark.parametrize("mistake, message", [
    (("classification", "fast", {}), "--protocol=fast: unknown; --task=classification has krahenbuhl, deepcluster"),
    (("classification", None, {"wings": 1}), "--wings: not for --task=classification"),
])  # fmt: skip
def test_mistakes_are_named(refusal, mistake, message):
    assert refusal(resolve, *mistake).startswith(message)
