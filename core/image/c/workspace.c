/* A pool of workspaces: as many as there were calls at once, each kept for the next call. */
#include "workspace.h"

#include <pthread.h>
#include <stdlib.h>

enum { KEPT_BYTES = 32 << 20 };

static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static workspace *pool;

workspace *workspace_take(void) {
    pthread_mutex_lock(&pool_lock);
    workspace *mine = pool;
    if (mine) pool = mine->next;
    pthread_mutex_unlock(&pool_lock);
    return mine ? mine : calloc(1, sizeof *mine);
}

/* What one huge picture needed is not kept for all the small ones after it. */
static void shrink(buffer *kept) {
    if (kept->size > KEPT_BYTES) buffer_free(kept);
}

void workspace_return(workspace *mine) {
    shrink(&mine->work.rows);
    shrink(&mine->work.between);
    shrink(&mine->records.samples);
    shrink(&mine->packed);
    pthread_mutex_lock(&pool_lock);
    mine->next = pool;
    pool = mine;
    pthread_mutex_unlock(&pool_lock);
}

void workspace_drop_all(void) {
    pthread_mutex_lock(&pool_lock);
    workspace *left = pool;
    pool = NULL;
    pthread_mutex_unlock(&pool_lock);
    while (left) {
        workspace *next = left->next;
        resizer_free(&left->work);
        record_decoder_free(&left->records);
        buffer_free(&left->packed);
        buffer_free(&left->maker);
        free(left);
        left = next;
    }
}

static void lock(void) { pthread_mutex_lock(&pool_lock); }

static void unlock(void) { pthread_mutex_unlock(&pool_lock); }

void workspace_mind_forks(void) { pthread_atfork(lock, unlock, unlock); }
