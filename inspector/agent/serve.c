// SPDX-License-Identifier: MIT
// The answers at the door: each operation of protocol.h, in the keeper's thread.
#include "agent/serve.h"
#include "agent/log.h"
#include "agent/self.h"
#include "agent/trim.h"

#include <stdio.h>
#include <sys/socket.h>

static bool tell(int client, const void *message, size_t size)
{
    return send(client, message, size, MSG_NOSIGNAL) == (ssize_t)size;
}

static bool tell_arenas(int client, const struct as_trim_outcome *out, bool forecast)
{
    for (size_t i = 0; i < out->arenas.count; i++) {
        const struct as_trim_arena *a = &out->arenas.items[i];
        struct as_control_arena arena = {
            .before = {.arena = a->address,
                       .resident = a->resident,
                       .releasable = a->releasable,
                       .withheld = a->withheld},
            .returned = forecast ? ARENASCOPE_UNKNOWN : a->returned,
            .longest_hold = forecast ? ARENASCOPE_UNKNOWN : a->longest_hold_ns,
        };
        if (!tell(client, &arena, sizeof arena))
            return false;
    }
    return true;
}

bool as_control_answer(int client, const struct as_control_request *request)
{
    struct as_control_reply reply = {.protocol = AS_CONTROL_PROTOCOL};
    struct as_error err = {0};
    struct as_trim_outcome out = {0};
    bool ok = true;
    snprintf(reply.version, sizeof reply.version, "%s", AS_VERSION);
    if (request->protocol != AS_CONTROL_PROTOCOL)
        ok = as_fail(&err, AS_UNSUPPORTED, "the agent in the process is of version %s and speaks protocol %d, not %u",
                     AS_VERSION, AS_CONTROL_PROTOCOL, request->protocol);
    else
        switch (request->operation) {
        case AS_CONTROL_HELLO:
            break;
        case AS_CONTROL_FORECAST:
            ok = as_agent_forecast(&request->trim, &out, &err);
            break;
        case AS_CONTROL_TRIM:
            reply.trim.size = sizeof reply.trim;
            ok = as_agent_trim(&request->trim, &reply.trim, &out, &err);
            break;
        case AS_CONTROL_RESIDENT:
            ok = as_self_resident(&reply.resident, &err);
            break;
        default:
            ok = as_fail(&err, AS_UNSUPPORTED, "the agent in the process (version %s) does not know operation %u",
                         AS_VERSION, request->operation);
        }
    if (!ok)
        as_log("operation %u of a client failed: %s", request->operation, err.text);
    reply.code = ok ? AS_OK : err.code;
    reply.count = ok ? out.arenas.count : 0;
    // What was left undone is worth a word, too.
    snprintf(reply.error, sizeof reply.error, "%s", ok ? out.note : err.text);
    bool told = tell(client, &reply, sizeof reply) &&
                (!ok || tell_arenas(client, &out, request->operation == AS_CONTROL_FORECAST));
    as_trim_free(&out);
    return told;
}
