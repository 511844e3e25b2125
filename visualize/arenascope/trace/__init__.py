# SPDX-License-Identifier: MIT
"""The trace of a process: every malloc and free."""
