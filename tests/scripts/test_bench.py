"""scripts/bench: what it counts, and how it compares with a baseline. How fast things are is no matter for tests."""

import json
import pathlib
import subprocess
import sys

import pytest
import tensorflow as tf

SCRIPTS = pathlib.Path(__file__).parents[2] / "scripts"


@pytest.fixture(scope="module", autouse=True)
def scripts_on_path():
    sys.path.insert(0, str(SCRIPTS))
    yield
    sys.path.remove(str(SCRIPTS))


def counted(function, *shapes):
    from benchmarks.operations import multiply_adds

    traced = tf.function(function, autograph=False).get_concrete_function(*map(tf.TensorSpec, shapes))
    return multiply_adds(traced)


def test_product():
    assert counted(tf.matmul, [5, 7], [7, 11]) == 5 * 7 * 11
    assert counted(lambda a, b: tf.matmul(a, b, transpose_a=True), [7, 5], [7, 11]) == 5 * 7 * 11


def test_a_strided_convolution_costs_its_kernel_at_each_position():
    convolution = tf.keras.layers.Conv2D(6, 3, strides=2, padding="same")
    assert counted(convolution, [2, 8, 8, 4]) == 2 * (4 * 4) * (3 * 3 * 4 * 6)


def test_a_transposed_convolution_costs_its_kernel_at_each_position_of_what_goes_in():
    convolution = tf.keras.layers.Conv2DTranspose(6, 3, strides=2, padding="same")
    assert counted(convolution, [2, 8, 8, 4]) == 2 * (8 * 8) * (3 * 3 * 4 * 6)


def test_going_backward_costs_twice_as_much_and_only_what_is_asked_for():
    convolution = tf.keras.layers.Conv2D(6, 3, padding="same")
    convolution.build([2, 8, 8, 4])
    forward = 2 * (8 * 8) * (3 * 3 * 4 * 6)

    def gradients(x, of_images=True):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(convolution(x) ** 2)
        found = tape.gradient(loss, [convolution.kernel, x])
        return found if of_images else found[0]

    assert counted(gradients, [2, 8, 8, 4]) == 3 * forward
    assert counted(lambda x: gradients(x, of_images=False), [2, 8, 8, 4]) == 2 * forward


def test_the_step_costs_what_its_networks_do():
    from benchmarks.bench_flops import counted as counted_step

    from lci_tf.config import presets

    found = counted_step(presets.resolve("stl10", {}))
    assert round(found.forward["C"] / 1e6, 1) == 94.0  # as in tests/models/test_multiply_adds.py
    assert sum(found.step.values()) < found.traced < 1.05 * sum(found.step.values())  # D goes back twice


def test_what_the_papers_training_reads():
    from benchmarks.bench_flops import whole

    from lci_tf.config import presets

    assert whole("stl10", presets.resolve("stl10", {})) == (312_500, 64 * 96 * 96 * 3)  # as in docs/pretraining.md
    steps, read = whole("imagenet2012", presets.resolve("imagenet2012", {}))
    assert steps == 2_669_098 and abs(steps * read / (200 * 147_897_477_120) - 1) < 1e-5  # the archive, 200 times


NETWORKS = {"alexnet": "C", "inpainter": "F"}


@pytest.mark.parametrize(
    ("name", "kind", "part"),
    [
        ("alexnet/features/conv1/Conv2D", "_MklNativeConv2D", ("C", "forward")),
        ("gradient_tape/inpainter/conv2/Conv2D/Conv2DBackpropInput_3", "Conv2DBackpropInput", ("F", "backward")),
        ("Adam_2/Adam/update_4/ResourceApplyAdam", "ResourceApplyAdam", ("optimisers", "")),
        ("GatherNd_3", "GatherNd", ("transformations, losses", "forward")),
        ("UnsortedSegmentSum_5", "UnsortedSegmentSum", ("transformations, losses", "backward")),
    ],
)
def test_to_whom_the_time_of_an_operation_goes(name, kind, part):
    from benchmarks.step_parts import part_of

    assert part_of(name, kind, NETWORKS) == part


def test_the_parts_of_a_step_by_the_profiler():
    from benchmarks import step_parts

    network = tf.keras.Sequential([tf.keras.layers.Dense(300, input_shape=[300])], name="alexnet")

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.sort(network(tf.random.uniform([300, 300]))))
        return tape.gradient(loss, network.trainable_variables)

    step()
    spent = step_parts.seconds(lambda: [gradient.numpy() for gradient in step()], NETWORKS, times=2)
    assert {("C", "forward"), ("C", "backward"), ("transformations, losses", "forward")} <= set(spent)
    assert all(0 < seconds < 10 for seconds in spent.values())
    lines = step_parts.chart({("C", "backward"): 3.0, ("F", "forward"): 1.0}).splitlines()
    assert "75.0%" in lines[0] and lines[0].count("█") == 45 and "25.0%" in lines[1] and lines[1].count("█") == 15


@pytest.mark.parametrize(("before", "code"), [(0.3, 0), (0.33, 0), (0.34, 1)])
def test_more_than_a_tenth_worse_than_before_is_a_failure(tmp_path, before, code):
    (tmp_path / "baseline.json").write_text(json.dumps({"step / matrix product": before, "gone since": 1.0}))
    program = (
        "import runpy, sys; bench = runpy.run_path(sys.argv[1]);"
        "bench['compare']({'step / matrix product': 0.3, 'new': 1.0}, __import__('json').load(open(sys.argv[2])), 'b')"
    )
    ran = subprocess.run([sys.executable, "-c", program, SCRIPTS / "bench", tmp_path / "baseline.json"],
                         capture_output=True, text=True)  # fmt: skip
    assert ran.returncode == code
    assert ("step / matrix product is 0.3" in ran.stderr) == bool(code)
