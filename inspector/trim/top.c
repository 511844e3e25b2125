// SPDX-License-Identifier: MIT
// An arena's top. Its size and its heap's stay as they are: only what the pages hold goes, and malloc never relies on what
// free memory holds, but for zeros where it comes fresh from the kernel, which is what a page that was given back reads as.
#include "malloc/trim_rules.h"
#include "trim/pages.h"
#include "trim/pass.h"

#include <sys/syscall.h>
#include <unistd.h>

// Where what malloc_trim(0) would cut off begins; of a thread arena's top it cuts nothing, nor where brk has been moved since.
static uint64_t cut_from(const struct as_trim_pass *p, uint64_t top, uint64_t end)
{
    if (!p->main || (uint64_t)syscall(SYS_brk, 0) != end)
        return end;
    return as_systrim_start(top, end, as_systrim_unit(p->par, p->page_size));
}

enum as_trim_progress as_trim_top(struct as_trim_pass *p)
{
    uint64_t end = p->top + p->top_size;
    uint64_t top = p->forecast && p->merged_top && p->merged_top < p->top ? p->merged_top : p->top;
    uint64_t cut = cut_from(p, top, end);
    enum as_trim_progress progress = as_trim_pages_release(p, cut, end, AS_TRIM_RELEASABLE);
    if (progress != AS_TRIM_DONE)
        return progress;
    // A plain trim only finds out how much this would be.
    bool forecast = p->forecast;
    p->forecast |= !p->request->deep;
    progress = as_trim_pages_release(p, as_deep_trim_start(top), cut, AS_TRIM_WITHHELD);
    p->forecast = forecast;
    return progress;
}
