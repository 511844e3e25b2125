# SPDX-License-Identifier: MIT
"""Starting arenadump, and decoding what it says and writes. Nothing else does either."""
