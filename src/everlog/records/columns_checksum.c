/* The checksum of two pieces of data that follow each other, of their checksums alone. */

#include "columns.h"

/* CRC-32C's polynomial, its highest power in the lowest bit as in the checksum itself. */
#define POLYNOMIAL 0x82F63B78u
#define ONE 0x80000000u

/* The product of two polynomials, modulo CRC-32C's. */
static uint32_t multiplied(uint32_t one, uint32_t other)
{
    uint32_t product = 0;
    for (uint32_t bit = ONE; bit; bit >>= 1) {
        if (one & bit)
            product ^= other;
        other = other & 1 ? other >> 1 ^ POLYNOMIAL : other >> 1;
    }
    return product;
}

/* What a checksum becomes once so many bytes of zero follow: it is multiplied by x to the power of their bits. */
static uint32_t followed_by_zeros(uint32_t checksum, uint64_t bytes)
{
    uint32_t power = ONE >> 8; /* x to the eighth: one byte */
    for (; bytes; bytes >>= 1) {
        if (bytes & 1)
            checksum = multiplied(power, checksum);
        power = multiplied(power, power);
    }
    return checksum;
}

PyObject *everlog_join_checksums(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    (void)module;
    if (nargs != 3) {
        PyErr_SetString(PyExc_TypeError, "join_checksums() takes first, second and second_bytes");
        return NULL;
    }
    unsigned long first = PyLong_AsUnsignedLong(args[0]), second = PyLong_AsUnsignedLong(args[1]);
    long long bytes = PyLong_AsLongLong(args[2]);
    if (PyErr_Occurred())
        return NULL;
    if (first > UINT32_MAX || second > UINT32_MAX || bytes < 0) {
        PyErr_SetString(PyExc_ValueError, "these are not two checksums and a number of bytes");
        return NULL;
    }
    return PyLong_FromUnsignedLong(followed_by_zeros((uint32_t)first, (uint64_t)bytes) ^ (uint32_t)second);
}
