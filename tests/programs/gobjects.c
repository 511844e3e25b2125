// SPDX-License-Identifier: MIT
// Holds objects of glib's type system, and chunks that are nearly such objects. Prints lines "KIND ADDRESS" (0x...: of the object,
// which may lie behind the beginning of its chunk): the name of a class, or "decoy"; then "ready", and waits for the end of its input.
#include <glib-object.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MANY = 50 };

#define DEFINE(Name, name, BASE, Base, words, privates)                                                                \
    typedef struct {                                                                                                   \
        Base parent;                                                                                                   \
        guint64 more[words];                                                                                           \
    } Name;                                                                                                            \
    typedef struct {                                                                                                   \
        Base##Class parent;                                                                                            \
        void (*work)(void);                                                                                            \
    } Name##Class;                                                                                                     \
    typedef struct {                                                                                                   \
        guint64 more[privates];                                                                                        \
    } Name##Private;                                                                                                   \
    G_DEFINE_TYPE_WITH_CODE(Name, name, BASE, (void)0; if (privates > 1) G_ADD_PRIVATE(Name))                          \
    static void name##_class_init(Name##Class *class)                                                                  \
    {                                                                                                                  \
        class->work = NULL;                                                                                            \
    }                                                                                                                  \
    static void name##_init(Name *object)                                                                              \
    {                                                                                                                  \
        memset(object->more, 0x11, sizeof object->more);                                                               \
        if (privates > 1)                                                                                              \
            memset(name##_get_instance_private(object), 0x22, sizeof(Name##Private));                                  \
    }

DEFINE(HeldPlain, held_plain, G_TYPE_OBJECT, GObject, 3, 1)
DEFINE(HeldPrivate, held_private, G_TYPE_OBJECT, GObject, 1, 9)
DEFINE(HeldDerived, held_derived, held_private_get_type(), HeldPrivate, 20, 5)
DEFINE(HeldLarge, held_large, held_plain_get_type(), HeldPlain, 600, 1)

static void *kept[1000];
static size_t kept_count;

static void *keep(const char *kind, void *object)
{
    printf("%s\t%p\n", kind, object);
    return kept[kept_count++] = object;
}

int main(void)
{
    char byte;
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    for (int i = 0; i < MANY; i++) {
        keep("HeldPlain", g_object_new(held_plain_get_type(), NULL));
        keep("HeldPrivate", g_object_new(held_private_get_type(), NULL));
        keep("HeldDerived", g_object_new(held_derived_get_type(), NULL));
        keep("HeldLarge", g_object_new(held_large_get_type(), NULL));
        // One leads to a class, and is too large or too small; one leads to it from another place; one only to what resembles a class.
        void **decoy = keep("decoy", calloc(1, sizeof(HeldPlain) + (i % 2 ? 64 : 0) - (i % 2 ? 0 : 32)));
        decoy[0] = g_type_class_peek(held_plain_get_type());
        decoy = keep("decoy", calloc(1, sizeof(HeldPrivate) + (sizeof(HeldPrivatePrivate) + 15) / 16 * 16));
        decoy[0] = g_type_class_peek(held_private_get_type());
        decoy = keep("decoy", calloc(1, sizeof(HeldPlain)));
        decoy[0] = keep("decoy", calloc(1, sizeof(HeldPlainClass)));
        memcpy(decoy[0], g_type_class_peek(held_plain_get_type()), sizeof(HeldPlainClass));
    }
    puts("ready");
    fflush(stdout);
    return read(0, &byte, 1) == 0 && kept_count > 0 ? 0 : 1;
}
