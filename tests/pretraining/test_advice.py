import logging

import pytest

from lci_tf.pretraining.advice import Advice


@pytest.fixture
def told(caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("lci_tf"), "propagate", True)

    def run(records):
        caplog.clear()
        advice = Advice()
        for step, record in records:
            advice.note(step, record)
        return [record.getMessage() for record in caplog.records]

    return run


def of_d(losses, every=20):
    return [(every * (i + 1), {"loss/discriminator": loss}) for i, loss in enumerate(losses)]


def test_a_silent_discriminator_is_reported_once(told):
    (line,) = told(of_d([1.95] * 60))
    assert line.startswith("D has said nothing for 500 steps: its loss is 1.95") and "=sum" in line
    assert told(of_d([1.95] * 25)) == []  # it may still begin to speak
    assert told(of_d(([1.95] * 20 + [1.2]) * 10)) == []


def test_an_f_that_has_lost(told):
    (line,) = told(of_d([0.02] * 40))
    assert line.startswith("F has lost against D for 300 steps: D's loss is 0.020")
    assert told(of_d([0.6] * 100)) == []


def test_an_f_that_runs_away_from_c(told):
    accuracies = [0.3] * 10 + [0.95] * 20
    records = [(20 * i, {"accuracy/lci": value}) for i, value in enumerate(accuracies + [0.2] * 10)]
    (line,) = told(records)
    assert "C recognises 20% of inpainted images, down from 95%" in line and "--adversarial_cosine" in line
    assert told(records[:31]) == []
    assert told([(20 * i, {"accuracy/lci": 0.2}) for i in range(100)]) == []  # C has not learned it yet


def test_a_training_without_f_or_d_gets_no_advice(told):
    assert told([(20 * i, {"loss/classifier": 1.0, "accuracy/warp": 0.1}) for i in range(100)]) == []
