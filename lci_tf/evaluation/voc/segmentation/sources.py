"""Finds images with masks, in VOC's own layout or in any folder."""

import pathlib

from lci_tf import files
from lci_tf.data.sets import folder, voc
from lci_tf.errors import InputError
from lci_tf.evaluation.voc.segmentation.masked_images import MaskedImages
from lci_tf.evaluation.voc.segmentation.masks import LOSSLESS, table_of

VOC_CLASSES = ("background", *voc.CLASSES)
_TRAIN = ("train", "trainval")
_TEST = ("val", "valid", "validation", "test")
_VOID_NAMES = ("void", "ignore", "unlabelled", "unlabeled")
_LAYOUTS = (("{}", "{}annot"), ("{}", "{}_masks"), ("images/{}", "masks/{}"))  # images and masks of a split


def read_class_names(path: str) -> list[str]:
    """Reads names of classes from a file with one on each line; the first is for pixels that are 0 in a mask."""
    try:
        names = [line.strip() for line in pathlib.Path(path).read_text().splitlines()]
    except (FileNotFoundError, IsADirectoryError):
        raise InputError(f"--class_names={path}: no such file") from None
    except UnicodeDecodeError:
        raise InputError(f"--class_names={path}: is not text; expected the name of a class on each line") from None
    while names and not names[-1]:
        names.pop()
    if "" in names:
        raise InputError(f"--class_names={path}: line {names.index('') + 1} is empty; expected a name on each line")
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"--class_names={path}: has the name {twice} twice")
    if not 0 < len(names) < 254:
        raise InputError(f"--class_names={path}: has {len(names)} names; expected 1 to 253, one per line")
    return names


def find_voc(
    year: str, data_dir: str | pathlib.Path, train: str | None = None, test: str | None = None
) -> tuple[MaskedImages, MaskedImages]:
    """Images to train on and to test on, by the lists in `ImageSets/Segmentation`; by default train and val."""
    for place in (pathlib.Path(data_dir), pathlib.Path(data_dir, f"VOC{year}"),
                  pathlib.Path(data_dir, "VOCdevkit", f"VOC{year}")):  # fmt: skip
        lists = place / "ImageSets" / "Segmentation"
        if lists.is_dir():
            chosen = _choose(sorted(path.stem for path in lists.glob("*.txt")), str(lists), train, test)
            return _apart(*(_of_list(lists / f"{split}.txt", place) for split in chosen))
    raise InputError(f"--data_dir={data_dir}: no VOC layout with masks there; expected ImageSets/Segmentation, "
                     "SegmentationClass, JPEGImages")  # fmt: skip


def _of_list(path, place):
    names = [line.split()[0] for line in path.read_text().splitlines() if line.strip()]
    if not names:
        raise InputError(f"{path}: lists no images")
    images = [place / "JPEGImages" / f"{name}.jpg" for name in names]
    of_images = [place / "SegmentationClass" / f"{name}.png" for name in names]
    for image, mask in zip(images, of_images, strict=True):
        if not image.is_file():
            raise InputError(f"{path}: lists {image.stem}, but there is no image {image}")
        if not mask.is_file():
            raise InputError(f"{path}: lists {image.stem}, but there is no mask {mask}")
    return _masked(path.stem, images, of_images, VOC_CLASSES, table_of(tuple(range(len(VOC_CLASSES))), ()))


def find_folder(
    data_dir: str | pathlib.Path,
    class_names: str | None = None,
    void: tuple[int, ...] = (),
    train: str | None = None,
    test: str | None = None,
) -> tuple[MaskedImages, MaskedImages]:
    """Images to train on and to test on, from a folder with a mask of the same name for every image.

    The subfolders are `train/` and `trainannot/` as in CamVid, `train/` and `train_masks/`, or `images/train/` and
    `masks/train/`, and likewise for other splits.

    Args:
      class_names: a file with a name on each line, by default `classes.txt` in the folder. Classes called void, ignore
        or unlabelled are not counted.
      void: further numbers in the masks that are not counted, besides 255.
      train, test: names of the splits, by default those that exist.
    """
    place = pathlib.Path(data_dir)
    if not place.is_dir():
        raise InputError(f"--data_dir={data_dir}: {files.why_no_folder(place)}")
    if class_names is None and not (place / "classes.txt").is_file():
        raise InputError("--class_names: missing; give a file with the name of a class on each line, the first for "
                         f"pixels that are 0, or put it into {data_dir} as classes.txt")  # fmt: skip
    names = read_class_names(class_names or str(place / "classes.txt"))
    numbers = tuple(i for i, name in enumerate(names) if i not in void and name.lower() not in _VOID_NAMES)
    if len(numbers) < 2:
        file = class_names or place / "classes.txt"
        raise InputError(f"--class_names={file}: expected at least two classes besides void, got {len(numbers)}")
    others = tuple(number for number in range(len(names)) if number not in numbers)
    table = table_of(numbers, (*others, *void))
    found: dict[str, tuple[pathlib.Path, pathlib.Path]] = {}
    for split in (*_TRAIN, *_TEST, *filter(None, (train, test))):
        for layout in _LAYOUTS:
            images, of_images = (place / part.format(split) for part in layout)
            if images.is_dir() and of_images.is_dir():
                found.setdefault(split, (images, of_images))
    if not found:
        expected = ", ".join(f"{images}/ and {masks}/".format("train", "train") for images, masks in _LAYOUTS)
        raise InputError(f"--data_dir={data_dir}: no folders of images and masks there; expected {expected}, and "
                         "the same for val")  # fmt: skip
    chosen = _choose(list(found), f"--data_dir={data_dir}", train, test)
    kept = tuple(names[number] for number in numbers)
    return _apart(*(_of_folders(split, found[split], kept, table) for split in chosen))


def _of_folders(split, folders, names, table):
    images, of_images = folders
    by_name, masks_by_name = _by_name(images), _by_name(of_images)
    if not by_name:
        raise InputError(f"{images}: contains no images")
    if alone := sorted(by_name.keys() - masks_by_name.keys()):
        raise InputError(f"{by_name[alone[0]]}: has no mask; expected {of_images / alone[0]}{LOSSLESS[0]}")
    if alone := sorted(masks_by_name.keys() - by_name.keys()):
        raise InputError(f"{masks_by_name[alone[0]]}: is a mask without image; expected one of this name in {images}")
    order = sorted(by_name)
    return _masked(split, [by_name[name] for name in order], [masks_by_name[name] for name in order], names, table)


def _by_name(place):
    """Paths by the names that images and their masks share: relative, and without the ending."""
    found: dict[str, str] = {}
    for path in folder.list_images(place)[0]:
        name = str(pathlib.Path(path).relative_to(place).with_suffix(""))
        if name in found:
            raise InputError(f"{path}: has the same name as {found[name]}, so a mask would be for both")
        found[name] = path
    return found


def _masked(split, images, of_images, names, table):
    images, of_images = (tuple(map(str, paths)) for paths in (images, of_images))
    return MaskedImages(split=split, images=images, masks=of_images, names=names, table=table)


def _choose(there, where, train, test):
    """The names of the splits to train on and to test on."""
    for flag, asked in (("--split", train), ("--test_split", test)):
        if asked and asked not in there:
            raise InputError(f"{flag}={asked}: no such split with masks; {where} has {', '.join(there) or 'none'}")
    train = train or next((split for split in _TRAIN if split in there and split != test), None)
    test = test or next((split for split in _TEST if split in there and split != train), None)
    if train is None or test is None:
        raise InputError(f"{where}: expected images with masks to train on and others to test on, such as train and "
                         f"val, got {', '.join(there) or 'none'}; name them with --split and --test_split")  # fmt: skip
    return train, test


def _apart(train, test):
    if shared := sorted(set(train.images) & set(test.images)):
        raise InputError(f"{train.split} and {test.split} share {len(shared):,} images, such as {shared[0]}; give "
                         "others as --split and --test_split")  # fmt: skip
    return train, test
