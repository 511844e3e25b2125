# SPDX-License-Identifier: MIT
"""The command line: one file per command."""
