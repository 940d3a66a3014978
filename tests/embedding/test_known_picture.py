import numpy as np

from lci_tf.embedding import known_picture


def kept(**features):
    return {known_picture.ANSWERS: known_picture.answers(features)}


def test_a_network_is_known_by_its_answer(refusal):
    rng = np.random.default_rng(0)
    embedding, maps = rng.normal(size=[1, 200]), rng.normal(size=[1, 6, 6, 8])
    before = kept(embedding=embedding, conv5=maps)
    rounded = {name: value.astype(np.float16) for name, value in (("embedding", embedding), ("conv5", maps))}
    known_picture.check(before, known_picture.answers(rounded), "--out_dir=a")
    known_picture.check(kept(embedding=embedding), known_picture.answers({"conv5": maps}), "--out_dir=a")
    for other in ({"embedding": embedding + 0.1}, {"embedding": embedding[:, :50]}, {"conv5": maps * np.nan}):
        message = refusal(known_picture.check, before, known_picture.answers(other), "--out_dir=a")
        assert message.startswith("--out_dir=a: its features are another network's; ")


def test_features_of_unknown_origin_are_refused(refusal):
    message = refusal(known_picture.check, {"model": "export/1"}, {"embedding": [1.0]}, "--out_dir=a")
    assert message.startswith("--out_dir=a: does not say which network made its features")
