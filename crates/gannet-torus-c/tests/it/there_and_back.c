/* `serve` lets memory be written and read, and sends back what it is sent; `ask` sends, waits for it, and gets it once more. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gannet_torus.h"

enum { SERVER = 7, CLIENT = 8, BYTES = 1 << 16, LENGTH = 40000, TAG = 5, OVER = 6 };
static const uint64_t ADDRESS = 0x50000000;

static void check(int ok, const char *what) {
    if (!ok) {
        fprintf(stderr, "%s: %s\n", what, gannet_torus_error());
        exit(1);
    }
}

/* The next completion of a kind; others are passed over, but none may have failed. */
static gannet_torus_completion_t next(gannet_torus *torus, uint32_t kind) {
    gannet_torus_completion_t got;
    for (int waits = 0; waits < 300; waits++) {
        int code = gannet_torus_poll(torus, &got);
        check(code >= 0, "poll");
        if (code == 0) {
            check(gannet_torus_wait(torus, 100) >= 0, "wait");
            continue;
        }
        check(got.kind != GANNET_TORUS_DONE || got.outcome == GANNET_TORUS_OK, "a post failed");
        if (got.kind == kind) {
            return got;
        }
    }
    check(0, "nothing happens");
    return got;
}

static unsigned char byte(int at) {
    return (unsigned char)(at * 31 + 7);
}

int main(int arguments, char **argument) {
    check(arguments == 3, "usage: there_and_back serve|ask SOCKET");
    int serves = strcmp(argument[1], "serve") == 0;
    gannet_torus *torus = NULL;
    check(gannet_torus_open(argument[2], serves ? SERVER : CLIENT, &torus) == 0, "open");
    uint32_t region, posted;
    void *memory;
    check(gannet_torus_register(torus, BYTES, ADDRESS + 1, GANNET_TORUS_WRITE, &region, &memory) ==
              GANNET_TORUS_FAILED, "an address that begins no page is refused");
    check(gannet_torus_register(torus, 0, ADDRESS, GANNET_TORUS_WRITE, &region, &memory) ==
              GANNET_TORUS_FAILED, "memory of no bytes is refused");
    check(gannet_torus_register(torus, BYTES, ADDRESS, GANNET_TORUS_WRITE, &region, &memory) == 0, "register");
    unsigned char *bytes = memory;
    gannet_torus_place_t place;
    for (int waits = 0; gannet_torus_place(torus, &place) == 0 && waits < 300; waits++) {
        check(gannet_torus_wait(torus, 100) >= 0, "wait");
    }
    check(place.nodes == 2 && place.process == (serves ? SERVER : CLIENT), "place");
    uint32_t other = 1 - place.node;
    if (serves) {
        gannet_torus_completion_t got = next(torus, GANNET_TORUS_ARRIVED);
        check(got.tag == TAG && got.length == LENGTH && got.node == other, "what came");
        check(gannet_torus_put(torus, region, got.address - ADDRESS, got.node, CLIENT, ADDRESS, got.length, TAG, NULL) == 0, "put");
        do {
            got = next(torus, GANNET_TORUS_ARRIVED);
        } while (got.tag != OVER);
        gannet_torus_close(torus);
        return 0;
    }
    for (int at = 0; at < LENGTH; at++) {
        bytes[at + 11] = byte(at);
    }
    /* The server may not be there yet. */
    gannet_torus_completion_t got = {0};
    for (int tries = 0; tries < 1000; tries++) {
        check(gannet_torus_put(torus, region, 11, other, SERVER, ADDRESS + 11, LENGTH, TAG, &posted) == 0, "put");
        int code;
        while ((code = gannet_torus_poll(torus, &got)) == 0) {
            check(gannet_torus_wait(torus, 100) >= 0, "wait");
        }
        check(code == 1 && got.kind == GANNET_TORUS_DONE && got.request == posted, "its completion");
        if (got.outcome == GANNET_TORUS_OK) {
            break;
        }
        check(gannet_torus_wait(torus, 10) >= 0, "wait");
    }
    check(got.outcome == GANNET_TORUS_OK, "the server does not come");
    got = next(torus, GANNET_TORUS_ARRIVED);
    check(got.address == ADDRESS && got.length == LENGTH && got.tag == TAG, "what came back");
    for (int at = 0; at < LENGTH; at++) {
        check(bytes[at] == byte(at), "a byte that came back");
    }
    memset(bytes, 0, BYTES);
    check(gannet_torus_get(torus, other, SERVER, ADDRESS + 11, region, 20000, LENGTH, &posted) == 0, "get");
    check(next(torus, GANNET_TORUS_DONE).request == posted, "the completion of the GET");
    for (int at = 0; at < LENGTH; at++) {
        check(bytes[at + 20000] == byte(at), "a byte that was got");
    }
    check(gannet_torus_put(torus, region, 0, other, SERVER, ADDRESS, 0, OVER, NULL) == 0, "put");
    next(torus, GANNET_TORUS_DONE);
    check(gannet_torus_deregister(torus, region) == 0, "deregister");
    check(gannet_torus_deregister(torus, region) == GANNET_TORUS_FAILED, "no region of this number");
    gannet_torus_close(torus);
    puts("there and back");
    return 0;
}
