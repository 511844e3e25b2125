# SPDX-License-Identifier: MIT
"""The tests under other kernels and on other processors, in a virtual machine that needs no rights and no network."""
