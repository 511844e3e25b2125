// SPDX-License-Identifier: MIT
// Whose control socket it is: the agent's name may be taken, and its descriptor inherited, by anybody. Nothing is said to who
// listens there but is not the target.
#include "inject/client.h"
#include "support/check.h"

#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SECOND = 1000000000 };

// A listening socket with a name that the kernel chooses, as the agent's is.
static int listening(void)
{
    const struct sockaddr_un any = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && bind(fd, (const struct sockaddr *)&any, sizeof any.sun_family) == 0 && listen(fd, 4) == 0);
    return fd;
}

// Takes the first who connects; returns how much they say.
static ssize_t hear(int fd)
{
    char said[4096];
    int client = accept(fd, NULL, NULL);
    CHECK(client >= 0);
    ssize_t length = recv(client, said, sizeof said, 0);
    close(client);
    return length;
}

// A child that has the agent's name and this socket, or, where that is -1, one of its own: then it ends with 0 if it was spoken to.
static pid_t pose_as_agent(int inherited)
{
    int ready[2];
    CHECK(pipe(ready) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        int own = inherited >= 0 ? inherited : listening();
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        CHECK(prctl(PR_SET_NAME, AS_AGENT_THREAD) == 0 && write(ready[1], "", 1) == 1);
        if (inherited < 0)
            _exit(hear(own) > 0 ? 0 : 1);
        for (;;)
            pause();
    }
    char byte;
    CHECK(read(ready[0], &byte, 1) == 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static bool connect_to(pid_t pid, uint64_t patience_ns, struct as_error *err)
{
    struct as_client client = {.socket = -1};
    bool absent;
    bool connected = as_client_connect(&client, pid, 0, patience_ns, &absent, err);
    as_client_close(&client);
    return connected;
}

static void test_stranger(void)
{
    struct as_error err = {0};
    int fd = listening(); // this process listens, and the child only has the descriptor
    pid_t child = pose_as_agent(fd);
    CHECK(!connect_to(child, 2 * (uint64_t)SECOND, &err));
    CHECK(err.code == AS_DENIED, "%s", err.text);
    CHECK_EQUAL(hear(fd), 0);
    CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
    close(fd);
}

static void test_target_itself(void)
{
    struct as_error err = {0};
    int status;
    pid_t child = pose_as_agent(-1);
    CHECK(!connect_to(child, 60 * (uint64_t)SECOND, &err)); // it hangs up without an answer
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s", err.text);
}

int main(void)
{
    test_stranger();
    test_target_itself();
    return 0;
}
