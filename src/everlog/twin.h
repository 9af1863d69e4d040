/* What every compiled module of ours begins with: it is the twin of plain Python, and may be left out. */
#ifndef EVERLOG_TWIN_H
#define EVERLOG_TWIN_H

#include <Python.h>
#include <stdlib.h>

/* 0 if the compiled twin is wanted; -1 with an ImportError if EVERLOG_PURE_PYTHON asks for the plain one.
   Here and not in Python, where a module that decides may not look at the environment. */
static inline int everlog_twin_wanted(void)
{
    const char *plain = getenv("EVERLOG_PURE_PYTHON");
    if (plain && *plain && *plain != '0') {
        PyErr_SetString(PyExc_ImportError, "EVERLOG_PURE_PYTHON asks for the plain Python twins");
        return -1;
    }
    return 0;
}

#endif
