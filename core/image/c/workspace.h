/* All that one image's work needs and the next one's finds ready. */
#ifndef DDLP_WORKSPACE_H
#define DDLP_WORKSPACE_H

#include "jpeg_rows.h"
#include "kernel.h"
#include "record.h"

struct workspace {
    jpeg_decoder decoder;
    resizer work;
    record_decoder records;
    buffer packed, maker; /* a record that is made, and one of its tiles */
    workspace *next;
};

#endif
