"""Files that fail while they are read, as those of a failing disk do."""

import subprocess
from pathlib import Path

import pytest

FOPEN = r"""
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>

static size_t left;

static ssize_t read_on(void *file, char *bytes, size_t size) {
  if (left == 0) {
    left = SIZE_MAX;  // another try succeeds
    errno = EIO;
    return -1;
  }
  size = fread(bytes, 1, size < left ? size : left, static_cast<FILE *>(file));
  left -= size;
  return size;
}

extern "C" FILE *fopen(const char *path, const char *mode) {
  auto next = reinterpret_cast<FILE *(*)(const char *, const char *)>(dlsym(RTLD_NEXT, "fopen"));
  FILE *file = next(path, mode);
  if (!file || strcmp(path, getenv("FAILING_FILE"))) return file;
  left = atol(getenv("FAILING_FROM"));
  return fopencookie(file, mode, {read_on, nullptr, nullptr, nullptr});
}
"""


def fails_from(patch: pytest.MonkeyPatch, place: int, path: Path, directory: Path) -> None:
    """Programs that are started from now on read a file as far as `place`, and then have an error,
    once."""
    source, library = directory / "fopen.cc", directory / "fopen.so"
    source.write_text(FOPEN)
    subprocess.run(["g++", "-shared", "-fPIC", source, "-o", library, "-ldl"], check=True)
    patch.setenv("FAILING_FILE", str(path.resolve()))
    patch.setenv("FAILING_FROM", str(place))
    patch.setenv("LD_PRELOAD", str(library))
