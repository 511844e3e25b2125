# SPDX-License-Identifier: MIT
"""Profiles of who allocates: the model, and the forms in which people and other tools read it."""
