// Stands in for zlib where its headers are not installed, for the one caller that records waves:
// what it "compresses" is a valid zlib stream of stored blocks.
#pragma once
#include <cstring>
#include <initializer_list>

using Bytef = unsigned char;
using uLong = unsigned long;
using uLongf = unsigned long;

constexpr int Z_OK = 0;
constexpr int Z_BUF_ERROR = -5;

inline uLong compressBound(uLong size) { return size + 5 * (size / 0xFFFF + 1) + 6; }

inline int compress2(Bytef* target, uLongf* length, const Bytef* source, uLong size, int) {
    if (*length < compressBound(size)) return Z_BUF_ERROR;
    Bytef* out = target;
    *out++ = 0x78;  // zlib header: deflate, 32 KiB window
    *out++ = 0x01;
    uLong a = 1, b = 0;  // Adler-32
    for (uLong i = 0; i < size; ++i) {
        a = (a + source[i]) % 65521;
        b = (b + a) % 65521;
    }
    uLong rest = size;
    do {
        const uLong part = rest < 0xFFFF ? rest : 0xFFFF;
        rest -= part;
        *out++ = rest == 0;  // last block or not, stored
        for (const uLong field : {part, ~part}) {
            *out++ = static_cast<Bytef>(field);
            *out++ = static_cast<Bytef>(field >> 8);
        }
        std::memcpy(out, source, part);
        out += part;
        source += part;
    } while (rest != 0);
    for (const uLong field : {b >> 8, b, a >> 8, a}) *out++ = static_cast<Bytef>(field);
    *length = static_cast<uLongf>(out - target);
    return Z_OK;
}
