/* All that one image's work needs and the next one's finds ready. */
#ifndef DDLP_WORKSPACE_H
#define DDLP_WORKSPACE_H

#include "jpeg_rows.h"
#include "kernel.h"

struct workspace {
    jpeg_decoder decoder;
    resizer work;
    workspace *next;
};

#endif
