"""Strict reading of a YAML file: every complaint names the file, the line, the key and what is allowed."""

from __future__ import annotations

import os
import stat
from collections import Counter
from pathlib import Path
from typing import TypeVar

import yaml

from harness.errors import ProblemError

T = TypeVar("T")
_REQUIRED = object()
YAML_BYTES, TEXT_BYTES = 1 << 20, 4 << 20  # the most that a file may hold
_EXPANDED = 1 << 20  # characters of all values, each alias counted as what it stands for
_NUMBER = 400  # characters of one
_SHOWN = 80  # characters of a value in a message
_MALFORMED = (yaml.YAMLError, ValueError, OverflowError, RecursionError)
_KINDS = {str: "a text", int: "a whole number", float: "a number", bool: "true or false", list: "a list"}


class Section:
    """One mapping of the file. Keys are taken one by one; `finish` complains about those nobody took."""

    def __init__(self, file: Path, node: yaml.Node, path: str = "") -> None:
        self.file = file
        self.path = path
        self.line = node.start_mark.line + 1
        if not isinstance(node, yaml.MappingNode):
            raise self.error("must be a mapping of keys to values")
        self._nodes: dict[str, yaml.Node] = {}
        self._known: list[str] = []
        for key, value in node.value:
            self._add(key, value)

    def _add(self, key: yaml.Node, value: yaml.Node) -> None:
        name = key.value if isinstance(key, yaml.ScalarNode) else "?"
        line = key.start_mark.line + 1
        if name in self._nodes:
            raise ProblemError(f"{self.file}:{line}: {self._place(name)}: the key stands here twice; remove one")
        self._nodes[name] = value

    def _place(self, key: str = "") -> str:
        return ".".join(part for part in (self.path, key) if part) or "the file"

    def error(self, message: str, key: str = "") -> ProblemError:
        """A ProblemError that points at `key` of this mapping, or at the mapping itself."""
        node = self._nodes.get(key) if key else None
        line = node.start_mark.line + 1 if node else self.line
        return ProblemError(f"{self.file}:{line}: {self._place(key)}: {message}")

    def __contains__(self, key: str) -> bool:
        return key in self._nodes

    def names(self) -> list[str]:
        """All keys, for mappings whose keys are names that the author chose."""
        return list(self._nodes)

    def value(self, key: str, default: object = _REQUIRED) -> object:
        """The plain Python value of a key, of whatever type."""
        self._known.append(key)
        if key in self._nodes:
            return _constructed(self.file, self._nodes[key])
        if default is _REQUIRED:
            raise self.error(f"the key {key!r} is missing")
        return default

    def take(self, key: str, kind: type[T], default: object = _REQUIRED) -> T:
        """The value of a key, which must be of this type (a whole number also counts as a float)."""
        value = self.value(key, default)
        if kind is float and type(value) is int:
            value = float(value)
        if type(value) is not kind:
            hint = "; YAML wants a dot in a number with an exponent: 1.0e-3" if kind is float else ""
            raise self.error(f"must be {_KINDS[kind]}, found {shown(value)}{hint}", key)
        return value

    def take_if_there(self, key: str, kind: type[T]) -> T | None:
        """As `take`, or None where the key is absent."""
        self._known.append(key)
        return self.take(key, kind) if key in self else None

    def choice(self, key: str, allowed: tuple[str, ...], default: object = _REQUIRED) -> str:
        """A text that is one of `allowed`."""
        value = self.take(key, str, default)
        if value not in allowed:
            raise self.error(f"found {shown(value)}, allowed: {', '.join(allowed)}", key)
        return value

    def words(self, key: str, default: object = _REQUIRED) -> tuple[str, ...]:
        """A list of texts; numbers are taken as their text, so that `shape: [rows, 4]` reads well."""
        values = self.take(key, list, default)
        if not all(type(value) in (str, int) for value in values):
            raise self.error(f"must be a list of texts, found {shown(values)}", key)
        return tuple(str(value) for value in values)

    def section(self, key: str) -> Section:
        """The mapping under a key."""
        self.value(key)
        return Section(self.file, self._nodes[key], self._place(key))

    def section_if_there(self, key: str) -> Section | None:
        """The mapping under a key, or None where the key is absent."""
        self._known.append(key)
        return self.section(key) if key in self else None

    def sections(self, key: str) -> list[Section]:
        """The list of mappings under a key."""
        self.take(key, list)
        items = self._nodes[key].value
        return [Section(self.file, node, f"{self._place(key)}[{i}]") for i, node in enumerate(items)]

    def unique(self, key: str, names: list[str]) -> None:
        """Raises ProblemError when the names under `key` are not all different."""
        for name, count in Counter(names).items():
            if count > 1:
                raise self.error(f"the name {shown(name)} stands here {count} times; names must differ", key)

    def finish(self) -> None:
        """Raises ProblemError when a key was left that nobody knows."""
        for key in self._nodes:
            if key not in self._known:
                raise self.error(f"unknown key; allowed: {', '.join(self._known)}", key)


def read(file: Path, most: int = YAML_BYTES) -> Section:
    """The top mapping of a YAML file of at most so many bytes. Raises ProblemError: no such file, not a regular one or
    too large, not UTF-8, a BOM, a tab, bad YAML, aliases that stand for too much."""
    text = read_text(file, most)
    if "\t" in text:
        raise ProblemError(f"{file}:{text[: text.index(chr(9))].count(chr(10)) + 1}: a tab; use spaces")
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        if node is None:
            raise ProblemError(f"{file}:1: the file is empty")
        section = Section(file, node)
        _Extent(file).of(node)
    except _MALFORMED as error:
        raise _malformed(file, error) from None
    _constructed(file, node)  # bad scalars, such as an impossible date, show here and not half-way
    return section


def read_text(file: Path, most: int = TEXT_BYTES) -> str:
    """A text file of a problem directory, of at most so many bytes. Raises ProblemError: no such file, not a regular
    one, too large, not UTF-8, a BOM."""
    try:
        content = _content(file, most)
    except OSError as error:
        raise ProblemError(f"{file}: cannot read it: {error.strerror}") from None
    if len(content) > most:
        raise ProblemError(f"{file}: larger than {most >> 10} KiB, the most that such a file may have")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ProblemError(f"{file}: byte {error.start} is not UTF-8; save the file as UTF-8") from None
    if text.startswith("\ufeff"):
        raise ProblemError(f"{file}:1: starts with a byte order mark; save the file as UTF-8 without BOM")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _content(file: Path, most: int) -> bytes:
    """The first `most` + 1 bytes. Opening does not wait for a pipe's other end."""
    with open(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as stream:
        mode = os.fstat(stream.fileno()).st_mode
        if not stat.S_ISREG(mode):
            kind = "a directory" if stat.S_ISDIR(mode) else "a pipe, a device or a socket"
            raise ProblemError(f"{file}: cannot read it: {kind}, not a regular file")
        return stream.read(most + 1)


def shown(value: object) -> str:
    """A value as a message shows it, on one line and cut where it is long."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


class _Extent:
    """Characters of a node's values with every alias written out, measured before anything is built of them."""

    def __init__(self, file: Path):
        self._file = file
        self._known: dict[yaml.Node, int | None] = {}  # None while it is being measured

    def of(self, node: yaml.Node) -> int:
        """Raises ProblemError for an anchor that holds its own alias, and for what is too much."""
        if node not in self._known:
            self._known[node] = None
            self._known[node] = self._measured(node)
        size = self._known[node]
        if size is None:
            raise self._error(node, "this anchor holds an alias of itself")
        return size

    def _measured(self, node: yaml.Node) -> int:
        if isinstance(node, yaml.ScalarNode):
            if node.tag in ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float") and len(node.value) > _NUMBER:
                raise self._error(node, f"a number of {len(node.value)} characters, allowed: {_NUMBER}")
            _constructed(self._file, node)
            return 1 + len(node.value)
        parts = node.value if isinstance(node, yaml.SequenceNode) else [part for pair in node.value for part in pair]
        size = 1 + sum(map(self.of, parts))
        if size > _EXPANDED:
            raise self._error(node, f"its aliases stand for more than {_EXPANDED} characters; write less, or without")
        return size

    def _error(self, node: yaml.Node, message: str) -> ProblemError:
        return ProblemError(f"{self._file}:{node.start_mark.line + 1}: {message}")


def _constructed(file: Path, node: yaml.Node) -> object:
    """The plain Python value of a node. Raises ProblemError."""
    try:
        return yaml.constructor.SafeConstructor().construct_object(node, deep=True)
    except _MALFORMED as error:
        raise _malformed(file, error, node) from None


def _malformed(file: Path, error: Exception, node: yaml.Node | None = None) -> ProblemError:
    mark = getattr(error, "problem_mark", None) or (node.start_mark if node else None)
    place = f"{file}:{mark.line + 1}" if mark else str(file)
    said = "nested too deeply" if isinstance(error, RecursionError) else _one_line(error)
    return ProblemError(f"{place}: not valid YAML: {said}")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
