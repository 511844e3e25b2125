# SPDX-License-Identifier: MIT
"""What to call a runtime or an allocator in a sentence."""

from __future__ import annotations

from typing import Final

NAMES: Final = {
    "cpython": "Python",
    "ruby": "Ruby",
    "jvm": "Java",
    "v8": "V8",
    "go": "Go",
    "jemalloc": "jemalloc",
    "mimalloc": "mimalloc",
    "tcmalloc": "tcmalloc",
    "musl": "musl",
    "partitionalloc": "PartitionAlloc",
    "zend": "PHP",
    "innodb": "InnoDB",
}
