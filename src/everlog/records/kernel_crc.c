/* CRC-32C of large pieces by carry-less multiplication, 256 bytes at a time, where the processor has it for 512 bits.
 *
 * A message is a polynomial over bits, and its checksum what is left of it modulo CRC-32C's. So whatever has the same
 * rest may stand for its beginning: here 256 bytes do for all that was read so far. They move on by 256 bytes when each
 * of their 64-bit halves is multiplied by x to the power of how far it moves, modulo the polynomial, which fits in
 * 32 bits; the product is added to what is read there. In the end the processor's own instruction for CRC-32C goes
 * over the 256 bytes, and over what is left (Gopal et al., Fast CRC Computation Using PCLMULQDQ, Intel, 2009).
 */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define STEP_BYTES 256
#define LANES 4 /* of 64 bytes */
/* Below this many bytes, handing the interpreter lock over costs more than the pass itself. */
#define UNLOCK_BYTES (256 * 1024)
/* x to the power of 2048 + 31 and of 2048 - 33, modulo the polynomial, the highest power in the lowest bit: the 64 bits
 * that come first in memory move by 64 more. */
#define MOVE_FIRST 0xDCB17AA4
#define MOVE_SECOND 0xB9E02B86

__attribute__((target("sse4.2"))) static uint32_t by_words(uint32_t crc, const uint8_t *at, size_t bytes)
{
    uint64_t long_crc = crc, word;
    for (; bytes >= 8; at += 8, bytes -= 8) {
        memcpy(&word, at, 8);
        long_crc = _mm_crc32_u64(long_crc, word);
    }
    crc = (uint32_t)long_crc;
    while (bytes--)
        crc = _mm_crc32_u8(crc, *at++);
    return crc;
}

__attribute__((target("avx512f,vpclmulqdq,sse4.2"))) static uint32_t by_folding(uint32_t crc, const uint8_t *at,
                                                                               size_t bytes)
{
    __m512i held[LANES];
    const __m512i move = _mm512_set_epi64(MOVE_SECOND, MOVE_FIRST, MOVE_SECOND, MOVE_FIRST, MOVE_SECOND, MOVE_FIRST,
                                          MOVE_SECOND, MOVE_FIRST);
    for (int lane = 0; lane < LANES; lane++)
        held[lane] = _mm512_loadu_si512(at + 64 * lane);
    held[0] = _mm512_xor_si512(held[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)crc)));
    for (at += STEP_BYTES, bytes -= STEP_BYTES; bytes >= STEP_BYTES; at += STEP_BYTES, bytes -= STEP_BYTES)
        for (int lane = 0; lane < LANES; lane++)
            held[lane] = _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(held[lane], move, 0x00),
                                                   _mm512_clmulepi64_epi128(held[lane], move, 0x11),
                                                   _mm512_loadu_si512(at + 64 * lane), 0x96 /* all three added */);
    uint8_t rest[STEP_BYTES];
    for (int lane = 0; lane < LANES; lane++)
        _mm512_storeu_si512(rest + 64 * lane, held[lane]);
    return by_words(by_words(0, rest, STEP_BYTES), at, bytes);
}

static uint32_t checksum(uint32_t crc, const uint8_t *at, size_t bytes)
{
    return ~(bytes < 2 * STEP_BYTES ? by_words(~crc, at, bytes) : by_folding(~crc, at, bytes));
}

static int can_fold(void)
{
    return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("vpclmulqdq");
}
#else
#define UNLOCK_BYTES 0
static uint32_t checksum(uint32_t crc, const uint8_t *at, size_t bytes)
{
    (void)at;
    (void)bytes;
    return crc;
}

static int can_fold(void)
{
    return 0;
}
#endif

PyObject *everlog_can_fold(PyObject *module, PyObject *ignored)
{
    (void)module;
    (void)ignored;
    return PyBool_FromLong(can_fold());
}

PyObject *everlog_crc32c(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    (void)module;
    if (nargs < 1 || nargs > 2 || !can_fold()) {
        PyErr_SetString(PyExc_TypeError, "crc32c() takes data and a checksum, on processors that can fold");
        return NULL;
    }
    unsigned long crc = nargs == 2 ? PyLong_AsUnsignedLong(args[1]) : 0;
    if (PyErr_Occurred())
        return NULL;
    Py_buffer buffer;
    if (PyObject_GetBuffer(args[0], &buffer, PyBUF_SIMPLE) < 0)
        return NULL;
    uint32_t found;
    if (buffer.len >= UNLOCK_BYTES) {
        Py_BEGIN_ALLOW_THREADS
        found = checksum((uint32_t)crc, buffer.buf, (size_t)buffer.len);
        Py_END_ALLOW_THREADS
    } else {
        found = checksum((uint32_t)crc, buffer.buf, (size_t)buffer.len);
    }
    PyBuffer_Release(&buffer);
    return PyLong_FromUnsignedLong(found);
}
