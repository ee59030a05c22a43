"""Samples in text files: an input as people write and paste it, with everything that is said of it.

A sample is its name, the name of its file and options, the text, and what was said:

    ==== a heading over several numbers | run.log | {"run": "table 1"}
    the text; control characters as \\xNN, a backslash as \\\\; without a line end behind its last line
    ----
    what was said

A new sample needs no last part: `retake` writes it, and the diff shows it.
"""

import json
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

_HEAD = re.compile(r"^==== ", re.MULTILINE)
_ESCAPED = re.compile(r"\\(?:\\|x([0-9a-f]{2}))")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\\]")


class Sample(NamedTuple):
    """A sample: name, name of its file, options, text, and what is to be said of it."""

    name: str
    file: str
    options: dict[str, Any]
    text: str
    expected: str = ""

    def write(self, folder: Path) -> Path:
        """Writes its file to a folder."""
        path = folder / self.file
        path.write_bytes(self.text.encode())
        return path


def samples_in(path: Path) -> list[Sample]:
    """The samples of a file, in order."""
    found = []
    for part in _HEAD.split(path.read_text(encoding="utf-8"))[1:]:
        head, _, rest = part.partition("\n")
        name, file, options = head.split(" | ")
        text, _, expected = rest.partition("\n----\n")
        found.append(Sample(name, file, json.loads(options), _ESCAPED.sub(_unescaped, text), expected.strip("\n")))
    return found


def written(samples: list[Sample]) -> str:
    """Samples as they stand in a file."""
    parts = []
    for x in samples:
        text = _CONTROL.sub(lambda m: "\\\\" if m[0] == "\\" else f"\\x{ord(m[0]):02x}", x.text)
        assert not _HEAD.search(text), f"a line of {x.name} begins as a sample does"
        assert "\n----\n" not in text, f"a line of {x.name} is the one before what is read"
        parts.append(f"==== {x.name} | {x.file} | {json.dumps(x.options)}\n{text}\n----\n{x.expected}\n")
    return "\n".join(parts)


def retake(folder: Path, describe: Callable[[Sample, Path], str]) -> None:
    """Describes all samples of a folder again, of files whose name has one of the words of the command line."""
    words = sys.argv[1:] or [""]
    for path in sorted(folder.glob("*.txt")):
        if any(word in path.stem for word in words):
            with tempfile.TemporaryDirectory() as place:
                again = [x._replace(expected=describe(x, Path(place))) for x in samples_in(path)]
            path.write_text(written(again), encoding="utf-8")


def _unescaped(match: re.Match[str]) -> str:
    return chr(int(match[1], 16)) if match[1] else "\\"
