// SPDX-License-Identifier: MIT
// Pages with the blocks of many sites: writes down each block's address and site, and waits.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SITES = 20, BLOCKS = 6000 };
static unsigned state = 1;

#define SITE(letter)                                                                                                   \
    static __attribute__((noinline)) void *site_##letter(size_t size)                                                  \
    {                                                                                                                  \
        void *block = malloc(size);                                                                                    \
        memset(block, 1, size);                                                                                        \
        return block;                                                                                                  \
    }
SITE(a)
SITE(b)
SITE(c)
SITE(d)
SITE(e)
SITE(f)
SITE(g)
SITE(h)
SITE(i)
SITE(j)
SITE(k)
SITE(l)
SITE(m)
SITE(n)
SITE(o)
SITE(p)
SITE(q)
SITE(r)
SITE(s)
SITE(t)

static void *(*const sites[SITES])(size_t) = {site_a, site_b, site_c, site_d, site_e, site_f, site_g,
                                              site_h, site_i, site_j, site_k, site_l, site_m, site_n,
                                              site_o, site_p, site_q, site_r, site_s, site_t};

static unsigned number(unsigned below)
{
    state = state * 1664525U + 1013904223U;
    return (state >> 8) % below;
}

int main(void)
{
    static void *blocks[BLOCKS];
    static unsigned of[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        of[i] = number(i / 1000 % 2 ? SITES : 5); // so that one site has several blocks on a page, of both kinds
        blocks[i] = sites[of[i]](number(12) ? 24 + 16 * number(8) : 2048 + number(6000));
    }
    for (int i = 0; i < BLOCKS; i++)
        if (number(4))
            printf("%c %lu\n", 'a' + of[i], (unsigned long)blocks[i]);
        else
            free(blocks[i]);
    puts("ready");
    fflush(stdout);
    getchar();
    return 0;
}
