/* A pool of workspaces: as many as there were calls at once, each kept for the next call. */
#include "workspace.h"

#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static workspace *pool;

workspace *workspace_take(void) {
    pthread_mutex_lock(&pool_lock);
    workspace *mine = pool;
    if (mine) pool = mine->next;
    pthread_mutex_unlock(&pool_lock);
    return mine ? mine : calloc(1, sizeof *mine);
}

void workspace_return(workspace *mine) {
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
        free(left);
        left = next;
    }
}
