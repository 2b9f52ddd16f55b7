/*
 * The node of a torus for programs in C: PUT and GET between processes of its hosts.
 *
 * A host of a torus runs `gannet torus node`. A process that has opened it registers memory at virtual addresses that it chooses;
 * from then on processes of other hosts reach it by node, number of the process, and address, with a completion at both ends.
 *
 * Functions give 0 or more when they succeed, and one of the codes below when they do not; gannet_torus_error() has the words. A
 * handle is used by one thread at a time. Nothing waits but gannet_torus_wait(), and, for the node of this host and a few seconds at most,
 * gannet_torus_open(), gannet_torus_register() and gannet_torus_deregister().
 *
 * Link with -lgannet_torus_c.
 */
#ifndef GANNET_TORUS_H
#define GANNET_TORUS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A process that uses the node of its host. */
typedef struct gannet_torus gannet_torus;

/* Why a function failed. */
enum {
    GANNET_TORUS_FAILED = -1, /* what was asked for is refused, or the system refuses it */
    GANNET_TORUS_FULL = -2,   /* too much is under way: take completions, and post again */
    GANNET_TORUS_ENDED = -3   /* the node of this host has ended */
};

/* What others may do with memory. */
enum {
    GANNET_TORUS_OWN = 0,  /* nothing: it is sent from */
    GANNET_TORUS_READ = 1, /* GET */
    GANNET_TORUS_WRITE = 2 /* PUT and GET; what this process gets itself goes to such memory */
};

/* Where a process is. */
typedef struct {
    uint16_t process; /* its number, by which others name it */
    uint32_t node;    /* the node of its host */
    uint32_t nodes;   /* nodes of the machine; 0 while there is none */
} gannet_torus_place_t;

/* What a completion tells. */
enum {
    GANNET_TORUS_DONE = 1,    /* a post is done: request, outcome */
    GANNET_TORUS_ARRIVED = 2, /* a PUT of another process is in memory: node, address, length, tag */
    GANNET_TORUS_MISSED = 3   /* arrivals were not told, since none was taken for too long: missed */
};

/* What has become of a post. */
enum {
    GANNET_TORUS_OK = 0,
    GANNET_TORUS_UNREACHABLE = 1,  /* the other node does not answer, or there is none */
    GANNET_TORUS_UNKNOWN = 2,      /* no process there has memory at the address, or where a PUT goes on behind it */
    GANNET_TORUS_OUT_OF_RANGE = 3, /* not all of it is within the memory there */
    GANNET_TORUS_READ_ONLY = 4,    /* the memory there may only be read */
    GANNET_TORUS_BUSY = 5,         /* the other node answers as many GETs as it can */
    GANNET_TORUS_INVALID = 6,      /* no such node, or no such memory here */
    GANNET_TORUS_NODE_ENDED = 7    /* the node of this host has ended */
};

/* What happened; fields that a kind does not have are 0. */
typedef struct {
    uint32_t kind;
    uint32_t request;
    uint32_t outcome;
    uint32_t node;
    uint64_t address; /* of the first byte */
    uint32_t length;  /* bytes */
    uint32_t tag;     /* what the other process says of them */
    uint64_t missed;
} gannet_torus_completion_t;

/* Uses the node whose socket for processes is at `path`; NULL for that of the only node of this host, or the one that GANNET_TORUS_NODE
 * names. `process` is the number that this process is to have, 0 for any. */
int gannet_torus_open(const char *path, uint16_t process, gannet_torus **torus);

/* Ends it: its memory is gone, and can be reached no more. */
void gannet_torus_close(gannet_torus *torus);

/* Where this process is; gives 1 when there is a machine, and 0 while there is none. */
int gannet_torus_place(gannet_torus *torus, gannet_torus_place_t *place);

/* Registers `bytes` bytes of new memory, which begins at `*memory`, at a virtual address, a whole number of pages of 4096 bytes. `*region`
 * is the number by which it is called here. */
int gannet_torus_register(gannet_torus *torus, size_t bytes, uint64_t address, uint32_t reach,
                          uint32_t *region, void **memory);

/* Gives memory back, when nothing of it is under way any more. */
int gannet_torus_deregister(gannet_torus *torus, uint32_t region);

/* Posts a PUT of `length` bytes from `offset` of a region, of which the other process is told with `tag`. They may not be changed before
 * it is done. `request` may be NULL. */
int gannet_torus_put(gannet_torus *torus, uint32_t region, uint64_t offset, uint32_t node,
                     uint16_t process, uint64_t address, uint32_t length, uint32_t tag,
                     uint32_t *request);

/* Posts a GET of `length` bytes to `offset` of a region. They mean nothing before it is done. `request` may be NULL. */
int gannet_torus_get(gannet_torus *torus, uint32_t node, uint16_t process, uint64_t address,
                     uint32_t region, uint64_t offset, uint32_t length, uint32_t *request);

/* Gives 1 and the next thing that happened, or 0 if nothing has. */
int gannet_torus_poll(gannet_torus *torus, gannet_torus_completion_t *completion);

/* Sleeps until something has happened, for `most_ms` milliseconds at most. */
int gannet_torus_wait(gannet_torus *torus, uint32_t most_ms);

/* The words for the last failure in this thread. They stay until the next one. */
const char *gannet_torus_error(void);

#ifdef __cplusplus
}
#endif

#endif
