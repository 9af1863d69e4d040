/* How compiled code appends to a file that the edge has lent it: see `File.lend` in files.py. */
#ifndef EVERLOG_APPENDER_H
#define EVERLOG_APPENDER_H

#include <stdint.h>
#include <sys/uio.h>

#define APPENDER_CAPSULE "everlog.ports.files.appender"

typedef struct file_appender file_appender;

struct file_appender {
    /* Write all pieces at `position`. Returns 0, or -1 if less was taken: what then lies behind `position`
     * counts for nothing. So do the zeros that may lie behind the end at any time, until `File.trim`. No Python
     * object is touched, so the interpreter lock need not be held. */
    int (*append)(file_appender *self, const struct iovec *pieces, int count, int64_t position);
};

#endif
