// SPDX-License-Identifier: MIT
// Holds structures of glibc, ld.so and zlib, of glib with -DWITH_GLIB, and chunks that nearly resemble them. Prints lines
// "KIND ADDRESS" (0x...), of kind "decoy" for the latter, then "ready", and waits for the end of its input.
#include <dirent.h>
#include <dlfcn.h>
#include <obstack.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#ifdef WITH_GLIB
#include <glib.h>
#endif

enum { MANY = 10, BYTES = 200000 };

static const char *const deflate_kinds[] = {"deflate", "window", "chains", "chains", "pending"};
static const char *const inflate_kinds[] = {"inflate", "window"};

// zlib asks for its parts one after the other.
struct parts {
    const char *const *kinds;
    unsigned next;
};

static void *give(void *parts, unsigned count, unsigned size)
{
    struct parts *p = parts;
    void *made = malloc((size_t)count * size);
    printf("%s\t%p\n", p->kinds[p->next++], made);
    return made;
}

static void take(void *parts, void *chunk)
{
    (void)parts;
    free(chunk);
}

struct stream {
    z_stream z;
    struct parts parts;
};
static struct stream of_program;
static struct stream *of_heap[MANY];
static unsigned char *text, *packed;
static void *kept[4096];
static size_t kept_count;

static void *keep(const char *kind, void *chunk)
{
    printf("%s\t%p\n", kind, chunk);
    kept[kept_count++] = chunk;
    return chunk;
}

static void start(struct stream *s, const char *const *kinds)
{
    memset(s, 0, sizeof *s);
    s->parts.kinds = kinds;
    s->z.zalloc = give;
    s->z.zfree = take;
    s->z.opaque = &s->parts;
}

// In the middle of a text.
static void pack(struct stream *s, int level, int bits, int memory)
{
    start(s, deflate_kinds);
    if (deflateInit2(&s->z, level, Z_DEFLATED, bits, memory, Z_DEFAULT_STRATEGY) != Z_OK)
        abort();
    s->z.next_in = text;
    s->z.avail_in = BYTES / 2;
    s->z.next_out = packed;
    s->z.avail_out = BYTES;
    deflate(&s->z, Z_NO_FLUSH);
}

static void unpack(struct stream *s, unsigned room)
{
    start(s, inflate_kinds);
    if (inflateInit2(&s->z, 15 + 32) != Z_OK)
        abort();
    s->z.next_in = packed;
    s->z.avail_in = BYTES;
    s->z.next_out = text;
    s->z.avail_out = room;
    inflate(&s->z, Z_SYNC_FLUSH);
}

static void use_zlib(struct stream *of_stack)
{
    static const int ways[MANY][3] = {{6, 15, 8}, {1, 15, 9}, {9, 12, 5}, {6, -15, 8}, {6, 31, 8},
                                      {6, 9, 1},  {9, 10, 9}, {3, 14, 7}, {6, 15, 4},  {2, 11, 6}};
    text = malloc(BYTES);
    packed = malloc(BYTES);
    for (size_t i = 0; i < BYTES; i++)
        text[i] = (unsigned char)(i % 251 * (i / 1000) >> 3);
    for (int i = 0; i < MANY; i++) {
        of_heap[i] = malloc(sizeof **of_heap);
        pack(of_heap[i], ways[i][0], ways[i][1], ways[i][2]);
    }
    pack(of_stack, 6, 15, 8);
    unsigned long bytes = BYTES;
    compress(packed, &bytes, text, BYTES / 2);
    unpack(&of_program, 1000);
    unpack(of_heap[0] = malloc(sizeof **of_heap), 50000);
}

// Which others might read.
struct {
    uint64_t mask;
    char *first;
    uint64_t used, places;
} tables[MANY];
struct {
    uint64_t size;
    uint32_t modulus, mask, nodes, used, big, none;
    void *keys, *hashes, *values;
} table[MANY];
struct {
    unsigned char *control;
    uint64_t mask, left, items;
} swiss[MANY];
struct {
    void *pointer;
    uint64_t number;
} sized[MANY];
struct {
    uint64_t size;
    void *pointer;
} before;

// Each differs in one thing from what it resembles.
static void make_decoys(void)
{
    for (int i = 0; i < MANY; i++) {
        uint64_t *state = keep("decoy", calloc(1, 7160)), *stream = keep("decoy", calloc(1, sizeof(z_stream)));
        state[0] = (uint64_t)(uintptr_t)stream; // which does not lead back
        state[1] = 16191;
        state = keep("decoy", calloc(1, 5952));
        state[0] = (uint64_t)(uintptr_t)stream;
        stream[7] = (uint64_t)(uintptr_t)state; // but the numbers say nothing
        state[1] = 113;
        state[2] = (uint64_t)(uintptr_t)keep("decoy", calloc(1, 65536));
        uint64_t *file = keep("decoy", calloc(1, 472));
        memcpy(file, stdin, 224); // whose lock is not in this chunk
        uint64_t *directory = keep("decoy", calloc(1, 32768));
        directory[0] = 3;
        directory[1] = 32768; // and no room for a header
    }
    for (int i = 0; i < MANY; i++) {
        table[i].size = 64;
        table[i].mask = 63;
        table[i].nodes = table[i].used = i % 2 ? 10 : 65; // of one there are too many, the other's hashes are too long
        table[i].keys = keep("decoy", calloc(64, 8));
        table[i].hashes = keep("decoy", calloc(64, i % 2 ? 8 : 4));
        table[i].values = keep("decoy", calloc(64, 8));
        // A table of buckets with control bytes, of which one is wrong.
        unsigned char *buckets = keep("decoy", calloc(1, 64 * 24 + 64 + 16));
        memset(buckets + 64 * 24, 0xff, 64 + 16);
        buckets[64 * 24 + i] = buckets[64 * 24 + 64 + i] = 0x11;
        buckets[64 * 24 + 40] = (unsigned char)(0x22 + 0x70 * (i % 2)); // one too many, or no control byte
        swiss[i].control = buckets + 64 * 24;
        swiss[i].mask = 63;
        swiss[i].left = 55;
        swiss[i].items = 1;
        sized[i].pointer = keep("decoy", calloc(1, 8000 + (size_t)i * 100));
        sized[i].number = 8000 + (uint64_t)i * 100 + (i % 2 ? 40 : -40); // of something else
    }
}

static void use_glibc(void)
{
    for (int i = 0; i < MANY; i++) {
        FILE *f = keep("FILE", fopen("/proc/self/maps", "r"));
        if (i % 2)
            fgetc(f);
        DIR *d = keep("DIR", opendir("/"));
        if (i % 2)
            readdir(d);
    }
    before.size = 100000;
    before.pointer = keep("sized", malloc(100000));
    memset(before.pointer, 1, 100000);
    void *library = keep("link_map", dlopen("libresolv.so.2", RTLD_NOW));
    if (!library || !before.pointer)
        abort();
}

#define obstack_chunk_alloc malloc
#define obstack_chunk_free free
static struct obstack objects;

// Blocks of obstacks, and what resembles one; then what resembles PHP's strings and tables.
static void make_blocks(void)
{
    obstack_init(&objects);
    for (int i = 0; i < 200; i++)
        obstack_alloc(&objects, 100);
    for (struct _obstack_chunk *chunk = objects.chunk; chunk; chunk = chunk->prev)
        keep("end", chunk);
    for (int i = 0; i < MANY; i++) {
        uint64_t *block = keep("decoy", calloc(1, 1000));
        block[0] = (uint64_t)(uintptr_t)block + 100;
        block[1] = (uint64_t)(uintptr_t)block + (i % 2 ? 900 : 1100); // before its end, or behind
        // Owner, size with flags, and kind, as MariaDB's my_malloc has them; in the others one is wrong.
        uint64_t sizes = 400 + 16 * (uint64_t)i, *header = keep("my_malloc", calloc(1, 24 + sizes));
        header[1] = sizes | (uint64_t)i % 4;
        memset(header + 3, 0x33, sizes);
        const uint64_t wrong[4][3] = {{1, sizes, 0}, {0, sizes + 40, 0}, {0, sizes - 40, 0}, {0, sizes, 1 << 20}};
        header = keep("decoy", calloc(1, 24 + sizes));
        memcpy(header, wrong[i % 4], sizeof wrong[0]);
        memset(header + 3, 0x33, sizes);
        uint64_t *string = keep("decoy", calloc(1, 24 + 40));
        string[0] = 1 | UINT64_C(0x16) << 32;
        string[1] = UINT64_C(1) << 63 | 12345; // the hash of another text
        string[2] = 39;
        memset(string + 3, 'x', 39);
        tables[i].mask = UINT64_C(0xffffffe0) << 32; // of 16 places
        tables[i].places = 16;
        tables[i].used = i % 2 ? 17 : 9;
        tables[i].first = (char *)keep("decoy", calloc(1, 16 * 40)) + (i % 2 ? 128 : 112); // where no table begins
    }
}

static pthread_barrier_t ready;

static void *work(void *unused)
{
    uintptr_t *dtv;
#if defined __x86_64__
    __asm__("mov %%fs:8, %0" : "=r"(dtv));
#else
    __asm__("mrs %0, tpidr_el0\n ldr %0, [%0]" : "=r"(dtv));
#endif
    printf("dtv\t%p\n", (void *)(dtv - 2));
    pthread_barrier_wait(&ready);
    pause();
    return unused;
}

static void use_threads(void)
{
    pthread_t thread;
    pthread_barrier_init(&ready, NULL, 4);
    for (int i = 0; i < 3; i++)
        pthread_create(&thread, NULL, work, NULL);
    pthread_barrier_wait(&ready);
}

#ifdef WITH_GLIB
// Before the arrays of a GHashTable, which is opaque, are its size, a prime number and more; the size has 8 bytes, or 4.
static void **arrays_of(GHashTable *table)
{
    return (void **)table + (*(uint64_t *)table >> 32 == 0 ? 4 : 3);
}

// What the table holds tells which array is which.
static void tell(GHashTable *table, void *key, void *value)
{
    void **words = arrays_of(table), **keys = words[0], **values = words[2];
    guint *hashes = words[1];
    int found = 0;
    for (guint i = 0; i < g_hash_table_size(table); i++)
        found |= (keys[i] == key) | (values[i] == value) << 1 | (hashes[i] == g_str_hash(key)) << 2;
    if (found != 7)
        abort();
    printf("keys\t%p\nhashes\t%p\n", (void *)keys, (void *)hashes);
    if (values != keys)
        printf("values\t%p\n", (void *)values);
}

static void use_glib(void)
{
    for (int size = 1; size < 3000; size = size * 2 + 1) {
        GHashTable *table = g_hash_table_new(g_str_hash, g_str_equal), *set = g_hash_table_new(g_str_hash, g_str_equal);
        kept[kept_count++] = table;
        kept[kept_count++] = set;
        for (int i = 0; i < size; i++) {
            char *key = g_strdup_printf("the key number %d", i);
            g_hash_table_insert(table, key, key + 1);
            g_hash_table_add(set, key);
        }
        // Some key is in all three arrays where most places are in use: in small tables a key is in any place.
        void **keys = *arrays_of(table);
        for (guint i = 0; size > 100 && i < g_hash_table_size(table); i++)
            if (keys[i]) {
                tell(table, keys[i], (char *)keys[i] + 1);
                break;
            }
    }
}
#endif

int main(void)
{
    struct stream of_stack;
    char byte;
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    use_zlib(&of_stack);
    make_decoys();
    use_glibc();
    make_blocks();
    use_threads();
#ifdef WITH_GLIB
    use_glib();
#endif
    puts("ready");
    fflush(stdout);
    return read(0, &byte, 1) == 0 && kept_count > 0 && of_stack.z.state && of_program.z.state ? 0 : 1;
}
