# SPDX-License-Identifier: MIT
"""The map of pages: what lies where, and how it is drawn."""
