// Stands in for the lz4 library where its headers are not installed, for the one caller that
// records waves: what it "compresses" is a valid LZ4 block that holds everything as literals.
#pragma once
#include <cstring>

inline int LZ4_compressBound(int size) { return size + size / 255 + 16; }

inline int LZ4_compress_default(const char* source, char* target, int size, int capacity) {
    if (capacity < LZ4_compressBound(size)) return 0;
    char* out = target;
    // The token's high half is the number of literals; 15 says that bytes follow to add to it.
    if (size < 15) {
        *out++ = static_cast<char>(size << 4);
    } else {
        *out++ = static_cast<char>(0xF0);
        int rest = size - 15;
        for (; rest >= 255; rest -= 255) *out++ = static_cast<char>(0xFF);
        *out++ = static_cast<char>(rest);
    }
    std::memcpy(out, source, size);
    return static_cast<int>(out + size - target);
}
