import numpy as np

from lci_tf.plotting import plots


def test_a_line_for_each_network(tmp_path):
    by_name = {"learned": {1: 0.25, 5: 0.5, 20: 0.4}, "random": {1: 0.2, 5: 0.1, 20: 0.15}}
    figure = plots.knn_accuracy(by_name, chance=0.1)
    (axes,) = figure.axes
    *lines, chance = axes.lines
    for line, (name, by_k) in zip(lines, by_name.items(), strict=True):
        assert line.get_label() == name
        np.testing.assert_allclose(line.get_xydata(), [[k, 100 * accuracy] for k, accuracy in by_k.items()])
    np.testing.assert_allclose(chance.get_ydata(), 10)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "5", "20"]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["learned", "random", "chance"]
    for name in ("figure.png", "figure.pdf"):
        plots.save(figure, tmp_path / name)
        assert (tmp_path / name).stat().st_size > 1000
