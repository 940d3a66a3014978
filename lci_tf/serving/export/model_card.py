"""The README of an export: what the model is, where it comes from, how to ask it."""

from collections.abc import Mapping, Sequence
from typing import Any

import lci_tf
from lci_tf.runs import Run
from lci_tf.runs.trained import FeatureModel
from lci_tf.serving.export.crops import DEFAULT_LIMITS, Limits


def write(
    signatures: Mapping[str, Any], model: FeatureModel, on_bad_image: str, half: bool, limits: Limits = DEFAULT_LIMITS
) -> str:
    """Markdown for a SavedModel with these signatures, made of `model`."""
    run, settings = Run(model.origin["run"]), model.settings
    facts = run.facts()
    images = facts["data"]["images"]
    count = f"{images:,} images" if images else "a stream of images"
    lines = [
        "# Image features, learned without labels",
        "",
        f"{settings.backbone} (width {settings.width:g}), pre-trained by lci_tf {lci_tf.__version__} to tell",
        f"{', '.join(model.labels)} apart.",
        "",
        f"- Data: {facts['data']['name']}, {facts['data']['split']}, {count}",
        f"- Training: {model.origin['step']:,} of {facts['steps']:,} steps, batches of {settings.batch_size}, seed "
        f"{facts['seed']}; all settings are in `assets/run.flags`",
        f"- Weights: {'float16' if half else 'float32'}, digest of the checkpoint {model.origin['digest']}",
        f"- Images: the short side is brought down to {settings.resize} pixels, then the middle "
        f"{settings.crop_size}×{settings.crop_size} is taken. All of that is in the model.",
        f"- Images that cannot be read: {_BAD[on_bad_image]}",
        _limits(limits),
        "",
        *_probes(run),
        "## Signatures",
        "",
        *_table(signatures),
        "",
        "`transformation` has the probabilities of the classes in `assets/transformations.txt`, a line each.",
        "",
        *_REQUEST,
    ]
    return "\n".join(lines) + "\n"


def of_classifier(
    signatures: Mapping[str, Any], label_names: Sequence[str], crop_size: int, resize: float, views: str
) -> str:
    """The same for a fine-tuned classifier."""
    crops = "the middle" if views == "centre" else f"{views} crops of"
    lines = [
        "# A classifier of images",
        "",
        f"Fine-tuned by lci_tf {lci_tf.__version__} to tell {len(label_names)} labels apart: `assets/labels.txt`.",
        "",
        f"- Images: the short side is brought down to {resize} pixels, then {crops} {crop_size}×{crop_size} is taken. "
        "All of that is in the model.",
        f"- Images that cannot be read: {_BAD['error']}",
        _limits(DEFAULT_LIMITS),
        "",
        "## Signatures",
        "",
        *_table(signatures),
        "",
        "`labels` has the names that go with `probabilities`; `label`, where every image has one, the most probable.",
        "",
        *_REQUEST,
    ]
    return "\n".join(lines) + "\n"


_REQUEST = [
    "## A request",
    "",
    "```",
    'curl -d "{\\"instances\\": [{\\"b64\\": \\"$(base64 -w0 photo.jpg)\\"}]}" \\',
    "  http://localhost:8501/v1/models/NAME:predict",
    "```",
]


_BAD = {
    "error": "the request fails, and its message names their positions; where a server makes one batch of several "
    "requests, all of these fail, and the positions are those in the batch",
    "zeros": "their features are zeros, and `valid` is false",
}


def _limits(limits):
    return (
        f"- Limits: an image of more than {limits.image_pixels / 1e6:,g} megapixels cannot be read; a request for more "
        f"than {limits.request_bytes / 1e6:,g} MB of decoded pixels fails"
    )


def _probes(run):
    """What a linear classifier makes of the features, if anybody asked."""
    records = [record for record in run.metrics() if any(name.startswith("probe/") for name in record)]
    if not records:
        return []
    *_, last = records
    found = {name.removeprefix("probe/"): value for name, value in last.items() if name.endswith("_ridge")}
    rows = [f"| {name.removesuffix('_ridge')} | {100 * value:.1f} % |" for name, value in found.items()]
    intro = f"By a linear classifier on each layer, at step {last['step']}; `assets/run.flags` says on which data."
    return ["## What the features are worth", "", intro, "", "| layer | right |", "|---|---|", *rows, ""]


def _table(signatures):
    lines = ["| signature | takes | gives |", "|---|---|---|"]
    for name, signature in sorted(signatures.items()):
        takes = _shapes(signature.structured_input_signature[1])
        lines.append(f"| `{name}` | {takes} | {_shapes(signature.structured_outputs)} |")
    return lines


def _shapes(specs):
    def shape(spec):
        return ", ".join("?" if side is None else str(side) for side in spec.shape)

    return ", ".join(f"`{name}` {specs[name].dtype.name} [{shape(specs[name])}]" for name in sorted(specs))
