// SPDX-License-Identifier: MIT
#include "runtimes/ruby_classes.h"

bool as_ruby_in_pages(const struct as_store *s, uint64_t address)
{
    const struct as_ruby_page_record *pages = s->ruby.items;
    size_t behind = AS_PARTITION_POINT(0, s->ruby.count, i, pages[i].address <= address);
    return behind > 0 && address - pages[behind - 1].address < pages[behind - 1].size;
}
