"""What happens beside the steps, and when: driven by hand, without a training."""

import gc
import math
import weakref

import numpy as np
import pytest

from lci_tf.pretraining import callbacks


class Learner:
    """Notes when it was asked for pictures."""

    def montages(self, images, draws):
        assert (images, draws) == ("the first images", "their draws")
        return {"patches": np.zeros([2, 2, 3], np.uint8)}


class Album:
    def __init__(self):
        self.steps = []

    def picture(self, step, name, picture):
        assert name == "patches" and picture.shape == (2, 2, 3)
        self.steps.append(step)


@pytest.mark.parametrize(
    "first, last, expected",
    [
        (0, 1000, [0, 100, 200, 400, 800, 1000]),
        (0, 60, [0, 60]),
        (100, 450, [200, 400, 450]),  # resumed just after a picture
        (399, 450, [400, 450]),
        (450, 900, [800, 900]),
    ],
)
def test_pictures_come_at_the_start_at_doubling_steps_and_at_the_end(first, last, expected):
    album = Album()
    montages = callbacks.Montages(first, last, {"image": "the first images", "draws": "their draws"}, album)
    montages.set_model(Learner())
    montages.on_train_begin()
    for batch in range(last - first):
        montages.on_train_batch_end(batch)
    assert album.steps == expected


def test_a_schedule_that_steps_in_threes_misses_nothing():
    """With three steps in one execution, Keras tells of every third step alone."""
    done = []

    class Act(callbacks._OnSchedule):
        def act(self, step):
            done.append(step)

    act = Act(4, 0, 20)
    for batch in (2, 5, 8, 11, 14, 17, 19):
        act.on_train_batch_end(batch)
    assert done == [6, 9, 12, 18, 20]


class Loss:
    """Like a tensor of which the value is not there yet: notes at which step it is asked for it."""

    def __init__(self, step, asked, value=1.25):
        self.step, self.asked, self.value = step, asked, value

    def __float__(self):
        self.asked.append(self.step)
        return self.value


class Checkpoints:
    latest = "the/last/one"

    def __init__(self):
        self.steps = []

    def save(self, step):
        self.steps.append(step)


def test_losses_are_read_only_when_something_is_written(monkeypatch):
    monkeypatch.setattr(callbacks.time, "monotonic", lambda: 0.5)  # within the same second
    checkpoints, asked = Checkpoints(), []
    save = callbacks.SaveCheckpoints(10, 0, 35, checkpoints)
    finite = callbacks.StopIfNotFinite(0, checkpoints, [save])
    bar = callbacks.ProgressBar(0, 35, batch_size=1)
    ending = callbacks.EndIfAsked(0, 35, checkpoints, finite, None)
    bar.on_train_begin()
    for batch in range(35):
        for callback in (finite, save, bar, ending):
            callback.on_train_batch_end(batch, {"loss/classifier": Loss(batch + 1, asked)})
    bar.close()
    assert checkpoints.steps == [10, 20, 30, 35] and set(asked) == {1, 10, 20, 30, 35}


def test_what_an_export_has_made_is_not_kept():
    class Network:
        def __init__(self):
            self.itself = self

    def export(run, step):
        made.append(weakref.ref(Network()))

    made = []
    gc.disable()
    try:
        callbacks.Export(10, 0, 20, Checkpoints(), export, None).act(10)
    finally:
        gc.enable()
    assert made[0]() is None


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_has_diverged_is_not_saved(refusal, value):
    checkpoints = Checkpoints()
    save = callbacks.SaveCheckpoints(10, 100, 200, checkpoints)
    finite = callbacks.StopIfNotFinite(100, checkpoints, [save])
    ending = callbacks.EndIfAsked(100, 200, checkpoints, finite, None)
    logs = {"loss/border": Loss(0, []), "loss/classifier": Loss(0, [], value)}
    for callback in (finite, save, ending):
        callback.on_train_batch_end(3, logs)
    assert refusal(ending._save).startswith(
        f"loss/classifier is {value} by step 104: the training has diverged; the last"
    )
    message = refusal(finite.on_train_batch_end, 9, logs)
    assert message.startswith(f"loss/classifier is {value} by step 110: the training has diverged; the last good")
    assert checkpoints.steps == []


def test_the_progress_bar_shows_rate_time_left_and_loss_and_ends_its_line(capsys):
    bar = callbacks.ProgressBar(first_step=2, last_step=4, batch_size=64)
    bar.close()  # before the training has begun
    bar.on_train_begin()
    bar.on_train_batch_end(0, {"loss/classifier": 1.25, "loss/border": 7.0})
    bar.close()
    printed = capsys.readouterr().err
    assert printed.endswith("\n")
    last = printed.replace("\r", "\n").strip().splitlines()[-1]
    assert "192/256" in last and "images/s" in last and "<" in last and "classifier 1.250" in last
