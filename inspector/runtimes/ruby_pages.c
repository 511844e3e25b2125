// SPDX-License-Identifier: MIT
#include "runtimes/ruby_classes.h"

bool as_ruby_in_pages(const struct as_store *s, uint64_t address)
{
    size_t low = 0, high = s->ruby.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct as_ruby_page_record *page = &s->ruby.items[middle];
        if (address < page->address)
            high = middle;
        else if (address - page->address < page->size)
            return true;
        else
            low = middle + 1;
    }
    return false;
}
