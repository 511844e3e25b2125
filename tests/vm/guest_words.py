# SPDX-License-Identifier: MIT
"""How a guest marks what it says on the console for the outside; all else there is for people."""

MARK = "@@vm "  # and then JSON
TROUBLE = "@@vm-trouble: "  # and then why it goes no further
