"""Curves are looked at; here it is checked that the numbers drawn are those that were logged."""

import numpy as np
import pytest

from lci_tf.plotting import curves
from lci_tf.runs import Run


def logged(count, seed=0, every=20):
    """As a run with LCI logs it: a probe at step 0, then numbers every so many steps."""
    rng = np.random.default_rng(seed)
    names = ["loss/classifier", "accuracy/identity_untouched", "accuracy/rot90", "accuracy/lci", "loss/discriminator",
             "loss/inpainter_gan", "loss/border", "loss/autoencoding", "gradient_norm/classifier",
             "learning_rate/classifier", "learning_rate/inpainter"]  # fmt: skip
    probes = [f"probe/{layer}_{kind}" for layer in ("conv1", "conv5") for kind in ("ridge", "knn")]
    steps = range(every, every * count + 1, every)
    records = [{"step": step, **dict(zip(names, rng.random(len(names)), strict=True))} for step in steps]
    return [{"step": 0, **dict(zip(probes, rng.random(4), strict=True))}, *records]


def panels_of(figure):
    return {axes.get_title(loc="left"): axes for axes in figure.axes}


def values(records, name):
    pairs = [(record["step"], record[name]) for record in records if name in record]
    return np.array(pairs).T


def test_every_kind_of_number_has_a_panel_with_what_was_logged():
    records = logged(40)
    panels = panels_of(curves.curves({"run": records}))
    assert list(panels) == ["loss of C", "accuracy of C (%)", "hinge losses", "squared errors of F", "learning rates",
                            "linear probe, dashed kNN (%)"]  # fmt: skip
    raw, smooth = panels["loss of C"].lines
    np.testing.assert_array_equal(raw.get_xydata().T, values(records, "loss/classifier"))
    np.testing.assert_allclose(smooth.get_ydata(), curves.smoothed(raw.get_ydata()))
    accuracy = panels["accuracy of C (%)"]
    assert len(accuracy.lines) == 6 and {text.get_text() for text in accuracy.texts} == {"identity", "rot90", "lci"}
    np.testing.assert_allclose(accuracy.lines[4].get_ydata(), 100 * values(records, "accuracy/lci")[1])
    for label, name in (("C", "learning_rate/classifier"), ("F", "learning_rate/inpainter")):
        (line,) = (line for line in panels["learning rates"].lines if line.get_label() == label)
        np.testing.assert_array_equal(line.get_xydata().T, values(records, name))  # as it is: rates are not noisy
    conv1, conv5, knn1, knn5 = panels["linear probe, dashed kNN (%)"].lines
    drawn = [line.get_ydata()[0] for line in (conv1, conv5, knn1, knn5)]
    expected = [f"probe/{layer}_{kind}" for kind in ("ridge", "knn") for layer in ("conv1", "conv5")]
    np.testing.assert_allclose(drawn, [100 * records[0][name] for name in expected])
    assert knn5.get_color() == conv5.get_color() != conv1.get_color() and knn5.get_linestyle() == "--"


def test_labels_are_at_the_ends_of_their_lines_and_do_not_overlap():
    records = [{"step": step, **{f"accuracy/{name}": 0.5 + i / 1e4 for i, name in enumerate("abcdef")}}
               for step in (1, 2)]  # fmt: skip
    (axes,) = curves.curves({"run": [*records, {"step": 3, "accuracy/z": 0.9}]}).axes
    heights = {text.get_text(): text.get_position()[1] for text in axes.texts}
    order = sorted(heights, key=heights.get)
    assert order == [*"abcdef", "z"]
    assert np.diff([heights[name] for name in order]).min() > 0.1
    assert min(heights.values()) >= 0 and max(heights.values()) <= 1


def test_several_runs_have_a_colour_each_and_every_number_a_panel():
    runs = {"one": logged(40), "two": logged(3, seed=1)}
    figure = curves.curves(runs)
    panels = panels_of(figure)
    assert {
        "loss of C",
        "accuracy of C, rot90 (%)",
        "hinge loss of D",
        "error of F, border",
        "linear probe, conv5 (%)",
    } < set(panels)
    raw, smooth, few = panels["accuracy of C, rot90 (%)"].lines
    np.testing.assert_allclose(raw.get_ydata(), 100 * values(runs["one"], "accuracy/rot90")[1])
    np.testing.assert_allclose(few.get_ydata(), 100 * values(runs["two"], "accuracy/rot90")[1])
    assert raw.get_color() == smooth.get_color() != few.get_color()
    for axes in panels.values():
        assert axes.lines[-1].get_color() == few.get_color()
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["one", "two"]
    figure.draw_without_rendering()  # there is room for all of it


def test_identity_is_one_panel_whether_patches_were_autoencoded_or_not():
    """And its title fits, as the step is told once for all panels."""
    renamed = [
        {name.replace("identity_untouched", "identity"): value for name, value in record.items()}
        for record in logged(3, seed=1)
    ]
    runs = {"both": logged(3), "not autoencoded": renamed, "without C": [{"step": 20, "loss/discriminator": 1.0}]}
    figure = curves.curves(runs)
    identity = panels_of(figure)["accuracy of C, identity (%)"]
    assert [line.get_label() for line in identity.lines] == list(runs)
    assert len({line.get_color() for line in identity.lines}) == 3
    np.testing.assert_allclose(identity.lines[1].get_ydata(), 100 * values(renamed, "accuracy/identity")[1])
    figure.draw_without_rendering()
    right = figure.bbox.width
    assert all(axes.get_tightbbox().x1 <= right for axes in figure.axes)
    assert figure.get_supxlabel() == "step" and not any(axes.get_xlabel() for axes in figure.axes)


def test_long_titles_are_written_smaller():
    long = f"accuracy/{'a_transformation_with_a_very_long_name' * 2}"
    runs = {name: [{"step": step, "accuracy/lci": 0.5, long: 0.5} for step in (1, 2)] for name in ("one", "two")}
    figure = curves.curves(runs)
    figure.draw_without_rendering()
    for axes in figure.axes:
        assert axes.get_tightbbox().x1 <= figure.bbox.width


def test_numbers_that_are_missing_leave_their_panel_out(refusal):
    panels = panels_of(curves.curves({"run": [{"step": 5, "loss/discriminator": 1.0}]}))
    assert list(panels) == ["hinge losses"]
    assert refusal(curves.curves, {"run": []}) == "metrics.jsonl: has no losses or accuracies yet"


@pytest.mark.parametrize("count", [1, 2, 25, 400])
def test_smoothing_keeps_lines_straight_in_the_middle_and_constants_everywhere(count):
    np.testing.assert_allclose(curves.smoothed(np.full(count, 3.5)), 3.5)
    straight = np.arange(count, dtype=float)
    inner = slice(count // 4, -(count // 4) or None)
    if count > 2:
        np.testing.assert_allclose(curves.smoothed(straight)[inner], straight[inner])


def test_values_that_are_not_finite_are_gaps_in_the_line(tmp_path):
    run = Run(tmp_path)
    for step in range(1, 101):
        run.log(step, {"loss/classifier": float("inf") if step == 50 else 1.0})
    raw, smooth = curves.curves({"run": run.metrics()}).axes[0].lines
    assert np.isnan(raw.get_ydata()[49]) and np.isfinite(raw.get_ydata()).sum() == 99
    np.testing.assert_allclose(smooth.get_ydata(), 1.0)
