/*
 * A library that cuda.bindings takes for NVIDIA's libcuda.so.1. It holds no driver: every symbol that the
 * bindings ask for is looked up in Python (tests/drv/fake_libcuda.py), which answers with a C function that
 * ends in the simulated driver.
 *
 * Host functions run in a thread of the library, as NVIDIA's driver runs them in one of its own.
 */
#include <pthread.h>
#include <stdint.h>
#include <string.h>

enum { NOT_INITIALIZED = 3 };

typedef int lookup_t(const char *symbol, void **function, int version, uint64_t flags, int *found);
typedef void host_function_t(void *data);

struct host_call {
    host_function_t *function;
    void *data;
};

static lookup_t *lookup;

void fake_set_lookup(lookup_t *given)
{
    lookup = given;
}

int cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags, int *found)
{
    /* Older bindings look for this function too. */
    if (strcmp(symbol, "cuGetProcAddress") == 0) {
        *function = (void *)cuGetProcAddress_v2;
        return 0;
    }
    return lookup ? lookup(symbol, function, version, flags, found) : NOT_INITIALIZED;
}

int cuGetProcAddress(const char *symbol, void **function, int version, uint64_t flags)
{
    int found;
    return cuGetProcAddress_v2(symbol, function, version, flags, &found);
}

static void *run(void *given)
{
    struct host_call *call = given;
    call->function(call->data);
    return 0;
}

/* Calls function(data) in a thread that Python did not start, and waits for it. */
int fake_call_in_thread(host_function_t *function, void *data)
{
    struct host_call call = {function, data};
    pthread_t thread;
    int status = pthread_create(&thread, 0, run, &call);
    return status ? status : pthread_join(thread, 0);
}
