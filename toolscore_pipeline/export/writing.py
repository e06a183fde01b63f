"""Writing an export: aside first, then both files renamed, so that nobody ever sees half of one."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

from toolscore_pipeline.errors import InputError
from toolscore_pipeline.export.manifest import ManifestBuilder


def manifest_path(path: str | Path) -> Path:
    """Where the manifest of an export stands: ``<file>.manifest.json``."""
    path = Path(path)
    return path.with_name(f"{path.name}.manifest.json")


class RecordWriter:
    """A file of records being written; nothing is in place before :meth:`commit`.

    Raises:
        InputError: the folder cannot be made or written.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.builder = ManifestBuilder()
        self._aside = self.path.with_name(f".{self.path.name}.{os.getpid()}.new")
        self._digest = hashlib.sha256()
        self._bytes = 0
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = open(self._aside, "wb")  # noqa: SIM115 - closed in commit or __exit__
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror}", path=path) from None

    def __enter__(self) -> RecordWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()
        self._aside.unlink(missing_ok=True)

    def write(self, lines: Iterable[bytes]) -> None:
        """Add lines, each without its line end."""
        for line in lines:
            self._digest.update(line)
            self._digest.update(b"\n")
            self._file.write(line)
            self._file.write(b"\n")
            self._bytes += len(line) + 1

    def commit_alone(self) -> None:
        """Put the file in place without a manifest."""
        self._finish()
        try:
            os.replace(self._aside, self.path)
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror}", path=self.path) from None

    def _finish(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def commit(self, **facts: Any) -> dict[str, Any]:
        """Put the records and then the manifest in place; returns the manifest.

        Args:
            facts: what else the manifest says (see :meth:`ManifestBuilder.manifest`).
        """
        self._finish()
        manifest = self.builder.manifest(
            file={
                "name": self.path.name,
                "sha256": self._digest.hexdigest(),
                "bytes": self._bytes,
            },
            **facts,
        )
        text = json.dumps(manifest, indent=2, ensure_ascii=False, sort_keys=True) + "\n"
        target = manifest_path(self.path)
        aside = target.with_name(f".{target.name}.{os.getpid()}.new")
        try:
            with open(aside, "wb") as file:
                file.write(text.encode("utf-8", "backslashreplace"))
                file.flush()
                os.fsync(file.fileno())
            os.replace(self._aside, self.path)
            os.replace(aside, target)
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror}", path=self.path) from None
        finally:
            aside.unlink(missing_ok=True)
        return manifest
