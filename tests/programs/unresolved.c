// SPDX-License-Identifier: MIT
// A library that nothing can relocate. See loads_in_vain.c.
extern int this_is_nowhere(void);
int unresolved(void);

int unresolved(void)
{
    return this_is_nowhere();
}
