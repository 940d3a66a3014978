"""Checks that a data set is what you think it is: counts, sizes, formats, damaged files, duplicates, sample pictures.

The exit code is 1 if it finds anything that would spoil training."""

import pathlib
import textwrap

from absl import flags

from lci_tf import cli

cli.define_data_flags(split_help="split of the data set; by default all")
cli.define_settings_flags("crop_size", "resize", "batch_size")
flags.DEFINE_string("out_dir", "check_data", "folder for the pictures", module_name="Output")

_MAX_SHOWN = 10  # lines of unreadable images and of duplicates


def main() -> int | None:
    from lci_tf import data
    from lci_tf.data import inspection, pipeline
    from lci_tf.plotting import pictures

    flag = cli.FLAGS
    settings = cli.settings_from_flags()
    settings.check_images()
    crops = pipeline.Crops(settings.crop_size, settings.resize)
    cli.fetch_if_allowed(flag.dataset, flag.data_dir)
    splits = [flag.split] if flag.split else data.split_names(flag.dataset, flag.data_dir)
    out_dir = pathlib.Path(flag.out_dir)
    out_dir.mkdir(parents=True, exist_ok=True)

    print(f"Crops of {settings.crop_size} pixels from images of {settings.resize}, batches of {settings.batch_size}")
    findings, wrong, label_names = {}, [], {}
    for split in splits:
        source = data.open_source(flag.dataset, split, flag.data_dir)
        label_names[split] = source.label_names
        found = findings[split] = inspection.inspect(source, crops, flag.seed)
        _print_findings(source, found)
        wrong += [f"{split}: {problem}" for problem in inspection.problems(found, crops, flag.max_bad_images)]
        name = f"{flag.dataset.replace('/', '_').replace(':', '_')}_{split}"
        for kind, picture in inspection.pictures_of(found, crops, flag.seed).items():
            path = out_dir / f"{name}_{kind}.png"
            pictures.save(path, picture)
            print(f"  {kind:13s} {path}")
    first = splits[0]
    if findings[first].count < settings.batch_size:
        wrong.append(f"{first}: {findings[first].count:,} images do not fill a batch of {settings.batch_size}")
    wrong += inspection.differing_labels(label_names)
    for (first, second), places in inspection.shared_images(findings).items():
        wrong.append(f"{len(places):,} images of {second} are also in {first}, such as {places[0]}")
    for problem in wrong:
        print(f"WRONG {problem}")
    if not wrong:
        print("Found nothing that would spoil training.")
    return 1 if wrong else 0


def _print_findings(source, found):
    print(f"{source.name} {source.split}: {found.count:,} images")
    for note in source.notes:
        print(f"  note          {note}")
    if source.label_kind == "none":
        print("  labels        none")
    else:
        what = "classes" if source.label_kind == "class" else "labels, any number per image"
        counts = ", ".join(f"{name} {found.label_counts[name]:,}" for name in source.label_names)
        _print_entry("labels", f"{len(source.label_names)} {what}: {counts}")
    sizes = [f"{width}×{height} ({n:,})" for (width, height), n in found.sizes.most_common(5)]
    more = f" and {len(found.sizes) - 5:,} other sizes" if len(found.sizes) > 5 else ""
    smallest, largest = (f(found.sizes, default=(0, 0), key=lambda s: s[0] * s[1]) for f in (min, max))
    span = f"; {smallest[0]}×{smallest[1]} to {largest[0]}×{largest[1]}" if len(found.sizes) > 1 else ""
    _print_entry("sizes", ", ".join(sizes) + more + span)
    _print_entry("formats", ", ".join(f"{kind} ({n:,})" for kind, n in found.formats.most_common()))
    turned = ", ".join(f"EXIF orientation {o} ({n:,})" for o, n in sorted(found.orientations.items()))
    _print_entry("orientation", f"{turned}; turned upright" if turned else "all as stored")
    _print_list("unreadable", [f"{why}" for _, why in sorted(found.unreadable.items())])
    _print_list("duplicates", [" = ".join(places) for places in found.duplicates])


def _print_list(name, lines):
    print(f"  {name:13s} {f'{len(lines):,}' if lines else 'none'}")
    for line in lines[:_MAX_SHOWN]:
        print(f"                {line}")
    if len(lines) > _MAX_SHOWN:
        print(f"                and {len(lines) - _MAX_SHOWN:,} more")


def _print_entry(name, text):
    for i, line in enumerate(textwrap.wrap(text, 100) or ["none"]):
        print(f"  {name if i == 0 else '':13s} {line}")


if __name__ == "__main__":
    cli.run(main, __doc__)
