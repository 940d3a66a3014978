import dataclasses

import pytest

from lci_tf.config import voc_protocols
from lci_tf.evaluation.voc import task
from lci_tf.evaluation.voc.task import Request
from lci_tf.runs import trained


@pytest.fixture(scope="module")
def model():
    return trained.random("alexnet_small", width=0.02)


@pytest.mark.parametrize("name", voc_protocols.TASKS)
def test_a_question_has_the_values_of_a_protocol_and_not_its_prose(model, name, tmp_path, refusal):
    protocol, request = voc_protocols.resolve(name, None, {}), Request(dataset="voc/2007", out_dir=str(tmp_path))
    asked, folder, results = task.begin(name, model, protocol, request, {"labels": 20})
    assert folder == tmp_path and results is None
    assert asked["task"] == name and asked["data"] == {"dataset": "voc/2007", "labels": 20} and asked["seed"] == 0
    reworded = dataclasses.replace(protocol, source="a book", differs="nothing")
    assert task.begin(name, model, reworded, request, {"labels": 20})[0] == asked
    slower = dataclasses.replace(protocol, learning_rate=1e-9)
    said = refusal(lambda: task.begin(name, model, slower, request, {"labels": 20}))
    assert f"holds a {name} with another protocol.learning_rate" in said


def test_a_batch_that_was_asked_for_is_not_larger_than_the_data_set(model, tmp_path, refusal):
    request, data = Request(dataset="voc/2007", out_dir=str(tmp_path)), {"train": {"split": "trainval", "images": 6}}
    seven = voc_protocols.resolve("classification", None, {"batch_size": 7})
    message = refusal(lambda: task.begin("classification", model, seven, request, data))
    assert message.startswith("--batch_size=7: larger than the data set, as voc/2007 trainval has 6 images")
    assert not list(tmp_path.iterdir())
    task.begin("classification", model, voc_protocols.resolve("classification", None, {}), request, data)


def test_by_default_results_are_beside_those_of_the_network(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    protocol = voc_protocols.resolve("detection", None, {})
    _, folder, _ = task.begin("detection", model, protocol, Request(dataset="voc/2007"), {})
    assert str(folder).startswith("runs/random/voc/detection_fast_rcnn_random_") and folder.is_dir()
