"""What happens beside the steps, and when: driven by hand, without a training."""

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


def test_the_bar_tells_rate_time_left_and_loss_and_ends_its_line(capsys):
    bar = callbacks.ProgressBar(first_step=2, last_step=4, batch_size=64)
    bar.close()  # before the training has begun
    bar.on_train_begin()
    bar.on_train_batch_end(0, {"loss/classifier": 1.25, "loss/border": 7.0})
    bar.close()
    printed = capsys.readouterr().err
    assert printed.endswith("\n")
    last = printed.replace("\r", "\n").strip().splitlines()[-1]
    assert "192/256" in last and "images/s" in last and "<" in last and "classifier 1.250" in last
