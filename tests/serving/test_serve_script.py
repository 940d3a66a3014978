"""scripts/serve, with executables that only write down how they were called."""

import pathlib
import shutil
import subprocess

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format, wrappers_pb2

from lci_tf.serving import client

ROOT = pathlib.Path(__file__).parents[2]
NEEDED = ("bash", "basename", "cat", "cut", "dirname", "env", "getconf", "mkdir", "mktemp", "sed")


@pytest.fixture
def machine(tmp_path):
    """Runs scripts/serve on a machine that has these executables. Returns its process and what it called."""
    tools, called = tmp_path / "bin", tmp_path / "called"
    tools.mkdir()
    for tool in NEEDED:
        (tools / tool).symlink_to(shutil.which(tool))

    def serve(*arguments, has=(), cwd=ROOT, docker_runs=True, **environment):
        for name in has:
            refuses = "exit 1" if name == "docker" and not docker_runs else "exit 0"
            (tools / name).write_text(
                f'#!/usr/bin/env bash\n[ "$1" != info ] || {refuses}\nprintf "%s\\n" {name} "$@" > {called}\n'
            )
            (tools / name).chmod(0o755)
        command = [str(ROOT / "scripts" / "serve"), *arguments]
        environment = {"PATH": str(tools), **environment}
        result = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
        return result, called.read_text().splitlines() if called.exists() else None

    return serve


@pytest.fixture
def export_dir(tmp_path):
    """With a version that sorts badly as text, and something that is no version."""
    export_dir = tmp_path / 'my "exports"'
    for version in ("9", "10", ".11-unfinished", "12 (copy)"):
        (export_dir / version).mkdir(parents=True)
        (export_dir / version / "saved_model.pb").touch()
    (export_dir / "13").mkdir()  # and nothing in it
    return export_dir


def models(path):
    config = pytest.importorskip("tensorflow_serving.config.model_server_config_pb2")
    parsed = text_format.Parse(path.read_text(), config.ModelServerConfig())
    (model,) = parsed.model_config_list.config
    return model


def batching(path):
    """By TF Serving's `BatchingParameters`, of which tensorflow-serving-api brings no class."""
    file = descriptor_pb2.FileDescriptorProto(name="batching.proto", package="test", syntax="proto3")
    file.dependency.append(wrappers_pb2.DESCRIPTOR.name)
    message = file.message_type.add(name="BatchingParameters")
    names = ("max_batch_size", "batch_timeout_micros", "max_enqueued_batches", "num_batch_threads")
    for number, name in enumerate(names, start=1):
        field = message.field.add(name=name, number=number, type_name=".google.protobuf.Int64Value")
        field.type, field.label = field.TYPE_MESSAGE, field.LABEL_OPTIONAL
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(wrappers_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName("test.BatchingParameters"))
    return text_format.Parse(path.read_text(), kind())


def test_by_the_binary(machine, export_dir):
    result, called = machine(export_dir.name, has=["tensorflow_model_server", "docker"], cwd=export_dir.parent)
    assert result.returncode == 0 and "Serving version 10 of" in result.stderr
    assert "on all addresses of this machine" in result.stderr  # it has no flag for another
    config = export_dir / ".serving"
    assert called == [
        "tensorflow_model_server",
        "--port=8500",
        "--rest_api_port=8501",
        f"--model_config_file={config}/models.config",
        "--allow_version_labels_for_unavailable_models=true",
        "--enable_batching=true",
        f"--batching_parameters_file={config}/batching.config",
    ]
    model = models(config / "models.config")
    assert (model.name, model.base_path, model.model_platform) == (client.MODEL_NAME, str(export_dir), "tensorflow")
    assert dict(model.version_labels) == {"stable": 10}
    # The label's version stays when the next one comes.
    assert model.model_version_policy.latest.num_versions == 2
    parameters = batching(config / "batching.config")
    assert parameters.max_batch_size.value >= client.MAX_REQUEST_IMAGES
    assert parameters.num_batch_threads.value >= 1 and parameters.batch_timeout_micros.value < 10_000
    assert parameters.max_enqueued_batches.value > 1


def test_by_docker(machine, export_dir):
    result, called = machine(
        str(export_dir), "photos", "--port=9000", "--rest_port=9001", has=["docker"], TF_SERVING_IMAGE="mine"
    )
    assert result.returncode == 0
    assert called[:8] == [
        "docker",
        "run",
        "--rm",
        "--publish=127.0.0.1:9000:8500",
        "--publish=127.0.0.1:9001:8501",
        f"--mount=type=bind,source={export_dir},target=/models/photos,readonly",
        f"--mount=type=bind,source={export_dir}/.serving,target=/config,readonly",
        "mine",
    ]
    assert "--model_config_file=/config/models.config" in called
    model = models(export_dir / ".serving" / "models.config")
    assert (model.name, model.base_path) == ("photos", "/models/photos")


def test_the_address_that_docker_publishes_at(machine, export_dir):
    has = ["tensorflow_model_server", "docker"]
    result, called = machine(str(export_dir), "--host=192.168.0.7", has=has)
    assert called[0] == "docker" and "--publish=192.168.0.7:8500:8500" in called
    assert "gRPC at 192.168.0.7:8500" in result.stderr
    result, called = machine(str(export_dir), "--host=0.0.0.0", has=has)
    assert called[0] == "tensorflow_model_server"  # for it listens there


def test_an_address_that_the_binary_cannot_keep_to_is_refused(machine, export_dir):
    result, called = machine(str(export_dir), "--host=127.0.0.1", has=["tensorflow_model_server"])
    assert result.returncode == 2 and called is None and result.stderr.count("\n") == 1
    assert "--host=127.0.0.1: needs Docker" in result.stderr and "listens on all addresses" in result.stderr


def test_without_either(machine, export_dir):
    for docker in ([], ["docker"]):
        result, called = machine(str(export_dir), has=docker, docker_runs=False)
        assert result.returncode == 2 and called is None
        assert "neither tensorflow_model_server nor a running Docker" in result.stderr
        assert "https://www.tensorflow.org/tfx/serving/setup" in result.stderr and "docs.docker.com" in result.stderr
    assert not (export_dir / ".serving").exists()


def test_mistakes(machine, export_dir, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "run" / "export").mkdir(parents=True)
    (tmp_path / "saved_model").mkdir()  # as of a classifier of version 0.1
    (tmp_path / "saved_model" / "saved_model.pb").touch()
    for arguments, message in (
        ([], "expected EXPORT_DIR [NAME]; see scripts/serve --help"),
        ([f"{tmp_path}/none"], f"{tmp_path}/none: no such folder"),
        ([__file__], f"{__file__}: is a file; expected a folder"),
        ([f"{tmp_path}/empty"], f"{tmp_path}/empty: has no exported version, a folder whose name is a number (see "),
        (
            [f"{tmp_path}/run"],
            f"{tmp_path}/run: is a run or the folder of a classifier; its exports are in {tmp_path}/run/e",
        ),
        ([f"{export_dir}/9"], f"{export_dir}/9: is a single version; give the folder above it"),
        (
            [f"{tmp_path}/saved_model"],
            f"{tmp_path}/saved_model: is not a version, a folder whose name is a number; exp",
        ),
        ([str(export_dir), "a/b"], "a/b: a model's name has letters"),
        ([str(export_dir), "--batch=1"], "unexpected argument '--batch=1'; see scripts/serve --help"),
    ):
        result, called = machine(*arguments, has=["tensorflow_model_server"])
        assert result.returncode == 2 and called is None and result.stdout == ""
        assert result.stderr.startswith(f"scripts/serve: {message}") and result.stderr.count("\n") == 1
