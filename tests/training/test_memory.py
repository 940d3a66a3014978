import os

import pytest
import tensorflow as tf

from lci_tf.errors import InputError
from lci_tf.models import layers
from lci_tf.training import memory

ONE = tf.distribute.OneDeviceStrategy("CPU:0")


@pytest.fixture(scope="module")
def network():
    image = tf.keras.Input([8, 8, 3])
    halves = tf.keras.layers.Conv2D(6, 3, 2, "same", use_bias=False)(image)
    return tf.keras.Model(image, tf.keras.layers.Dense(10, use_bias=False)(tf.keras.layers.Flatten()(halves)))


def test_all_that_a_network_computes_is_counted(network):
    computed = 8 * 8 * 3 + 4 * 4 * 6 + 4 * 4 * 6 + 10  # what comes in, the map, the same flat, the answers
    assert 4 * computed <= memory._activations(network) <= 4 * (computed + 10)  # one that passes the answers on
    once, twice = (memory.estimate({network: images}, 6, ONE) for images in (1, 2))
    assert twice.per_image == pytest.approx(2 * once.per_image) and twice.fixed == once.fixed and once.images == 6


def test_what_passes_on_is_not_counted():
    """As the operations of layers with gradients of their own."""
    image = tf.keras.Input([8, 8, 3])
    plain, ours = (
        memory._activations(tf.keras.Model(image, activate(image)))
        for activate in (tf.keras.layers.LeakyReLU(0.1), layers.LeakyReLU(0.1))
    )
    assert ours == plain


def test_what_can_never_fit_is_refused_with_what_would(network, monkeypatch, refusal):
    monkeypatch.setattr(memory, "machine_has", lambda: 2 * 2**30)
    needed = memory.estimate({network: 1}, 50_000_000, ONE)
    message = refusal(memory.require, needed)
    assert message.startswith(
        f"--batch_size=50000000: takes about {needed.total / 2**30:.1f} GiB for a step, of 2.0 GiB"
    )
    fitting = int(message.partition("about ")[2].partition("; about ")[2].split()[0].replace(",", ""))
    memory.require(needed._replace(images=fitting))
    with pytest.raises(InputError):
        memory.require(needed._replace(images=fitting + 1))
    monkeypatch.setattr(memory, "machine_has", lambda: 2**20)
    assert refusal(memory.require, needed).endswith("; give a smaller --width or --crop_size")


def test_too_little_free_memory_is_warned_of(network, monkeypatch, caplog):
    needed = memory.estimate({network: 1}, 4, ONE)
    for free, warnings in ((2 * needed.total, 0), (needed.total / 2, 1)):
        monkeypatch.setattr(memory, "_meminfo", {"MemTotal": 3 * needed.total, "MemAvailable": free}.get)
        memory.require(needed)
        assert len(caplog.records) == warnings
    assert f"a step takes about {needed.total / 2**30:.1f} GiB, but only " in caplog.text


def test_the_limit_of_a_container_counts(tmp_path, monkeypatch):
    of_the_machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(memory, "_CGROUP_LIMITS", (str(tmp_path / "none"), str(limit)))
    for text, expected in (("max", of_the_machine), (f"{2**29}\n", 2**29), (f"{2**62}", of_the_machine)):
        limit.write_text(text)
        assert memory.machine_has() == pytest.approx(expected, rel=0.05)
