// Bulk mode of many runs of a unit at a time, bit i of every vector being that of run i: records
// from one file, dealt to the runs; results to another, in the order of the records.
//
//     driver RECORDS RESULTS GAP STALL SEED TIMEOUT
//
// design.h has the unit (bitsliced.py). Each run has its own reset, states of registers before it,
// gaps and stalls, and is judged alone: what it gives and nobody asked for ends the program. So
// does one that is not done and has no transfer for TIMEOUT cycles, within twice as many.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>
#ifdef __AVX512F__
#include <immintrin.h>
#endif

typedef uint64_t V __attribute__((vector_size(64)));
constexpr int WORDS = 8, RUNS = 64 * WORDS;
static const V zero = {}, ones = ~zero;

// A table of three inputs: bit 4 a + 2 b + c of T.
template <unsigned T> static inline V lut(V a, V b, V c) {
#ifdef __AVX512F__
  return (V)_mm512_ternarylogic_epi64((__m512i)a, (__m512i)b, (__m512i)c, T);
#else
  V result = zero;
  if (T & 1) result |= ~a & ~b & ~c;
  if (T & 2) result |= ~a & ~b & c;
  if (T & 4) result |= ~a & b & ~c;
  if (T & 8) result |= ~a & b & c;
  if (T & 16) result |= a & ~b & ~c;
  if (T & 32) result |= a & ~b & c;
  if (T & 64) result |= a & b & ~c;
  if (T & 128) result |= a & b & c;
  return result;
#endif
}
template <unsigned T> static inline V lut(V a, V b) { return lut<T | T << 4>(zero, a, b); }
template <unsigned T> static inline V lut(V a) { return lut<T | T << 2>(zero, a); }

#include "design.h"

static Slices slices;

// Rows become columns, of 64 words of 64 bits, in each word of the vectors (Hacker's Delight,
// section 7-3).
static void transpose(V *rows) {
  uint64_t mask = 0x00000000ffffffff;
  for (int j = 32; j; j >>= 1, mask ^= mask << j)
    for (int k = 0; k < 64; k = (k + j + 1) & ~j) {
      V swapped = ((rows[k] >> j) ^ rows[k + j]) & mask;
      rows[k] ^= swapped << j;
      rows[k + j] ^= swapped;
    }
}

// A sequence for each word of a vector (Marsaglia, Xorshift RNGs).
struct Random {
  V state;
  explicit Random(uint64_t seed) {
    for (int i = 0; i < WORDS; i++) {
      uint64_t z = seed + (i + 1) * 0x9e3779b97f4a7c15;  // SplitMix64
      z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
      z = (z ^ z >> 27) * 0x94d049bb133111eb;
      state[i] = (z ^ z >> 31) | 1;
    }
  }
  V next() {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
  }
  // Ones with a chance of so many in 256.
  V chance(unsigned of) {
    V found = zero;
    for (int bit = 0; bit < 8; bit++) found = of >> bit & 1 ? found | next() : found & next();
    return found;
  }
};

static inline bool any(V bits) {
  uint64_t all = 0;
  for (int i = 0; i < WORDS; i++) all |= bits[i];
  return all != 0;
}

template <class F> static inline void each(V bits, F f) {
  for (int i = 0; i < WORDS; i++)
    for (uint64_t rest = bits[i]; rest; rest &= rest - 1) f(64 * i + __builtin_ctzll(rest));
}

struct Run {
  const uint8_t *record, *end;  // what is offered, and where its records end
  uint32_t *results;            // where the next goes
  long owed;                    // results asked for and not taken
};

static bool asks(const uint8_t *record) { return ENDS < 0 || record[ENDS / 8] >> ENDS % 8 & 1; }

// A file, and 8 bytes; none where it cannot be read.
static std::vector<uint8_t> read(const char *path) {
  std::FILE *file = std::fopen(path, "rb");
  if (!file) return {};
  std::fseek(file, 0, SEEK_END);
  const long size = std::ftell(file);
  std::rewind(file);
  std::vector<uint8_t> bytes(size + 8);  // words are read whole
  if (std::fread(bytes.data(), 1, size, file) != size_t(size)) bytes.clear();
  std::fclose(file);
  return bytes;
}

int main(int argc, char **argv) {
  if (argc != 7) return 2;
  const unsigned gap = std::atoi(argv[3]), stall = std::atoi(argv[4]);
  const long timeout = std::atol(argv[6]);
  Random random(std::strtoull(argv[5], nullptr, 10));
  const std::vector<uint8_t> bytes = read(argv[1]);
  std::FILE *output = std::fopen(argv[2], "wb");
  int status = bytes.empty() || !output ? 1 : (bytes.size() - 8) % RECORD_BYTES ? 2 : 0;
  const size_t records = status ? 0 : (bytes.size() - 8) / RECORD_BYTES;
  const uint8_t *const first = bytes.data(), *const last = first + records * RECORD_BYTES;

  // Each run gets about as many records, and whole items.
  size_t items = 0;
  for (const uint8_t *record = first; record < last; record += RECORD_BYTES) items += asks(record);
  std::vector<uint32_t> results(items * RESULT_WORDS);
  std::vector<Run> runs(RUNS);
  static const uint8_t nothing[RECORD_BYTES + 8] = {};
  uint32_t *place = results.data();
  const uint8_t *record = first;
  V rest = zero;  // runs that have something to offer
  for (int i = 0; i < RUNS; i++) {
    const uint8_t *start = record, *until = first + records * (i + 1) / RUNS * RECORD_BYTES;
    runs[i] = {start, start, place, 0};
    while (record < until || (record > start && record < last && !asks(record - RECORD_BYTES))) {
      place += asks(record) * RESULT_WORDS;
      record += RECORD_BYTES;
    }
    runs[i].end = record;
    if (record == start) runs[i].record = runs[i].end = nothing;
    else rest[i / 64] |= uint64_t(1) << i % 64;
  }

  long blocks = 0, taken = 0, cycles = 0, unseen = 0;
  std::chrono::duration<double> unit{};
  V valid = zero, moved = zero;
  Slices &s = slices;
  for (V &bit : s.state) bit = random.next();

  auto clocked = [&] {
    const auto before = std::chrono::steady_clock::now();
    step(s);
    std::memcpy(s.state, s.next, sizeof s.state);
    unit += std::chrono::steady_clock::now() - before;
  };
  auto offer = [&] {
    for (size_t column = 0; column < (RECORD_BYTES + 7) / 8; column++) {
      V *const rows = s.record + 64 * column;
      for (int i = 0; i < RUNS; i++)
        std::memcpy((uint64_t *)(rows + i % 64) + i / 64, runs[i].record + 8 * column, 8);
      transpose(rows);
    }
  };
  auto take = [&](V came) {
    if (!any(came)) return;
    constexpr size_t COLUMNS = (RESULT_WORDS + 1) / 2;
    static V rows[64 * COLUMNS];
    std::memcpy(rows, s.result, sizeof rows);
    for (size_t column = 0; column < COLUMNS; column++) transpose(rows + 64 * column);
    each(came, [&](int i) {
      Run &run = runs[i];
      if (--run.owed < 0) {
        status = 4;
        return;
      }
      for (size_t k = 0; k < RESULT_WORDS; k++)
        *run.results++ = rows[64 * (k / 2) + i % 64][i / 64] >> 32 * (k % 2);
      taken++;
    });
  };
  auto cycle = [&](bool draining) {
    valid |= rest & ~valid & ~random.chance(gap);
    s.in_valid = valid;
    s.out_ready = draining ? ones : ~random.chance(stall);
    offer();
    clocked();
    const V sent = valid & s.in_ready, came = s.out_valid & s.out_ready;
    each(sent, [&](int i) {
      Run &run = runs[i];
      run.owed += asks(run.record);
      blocks++;
      if (run.record + RECORD_BYTES == run.end) rest[i / 64] &= ~(uint64_t(1) << i % 64);
      else run.record += RECORD_BYTES;
    });
    valid &= ~sent;
    take(came);
    moved |= sent | came;
  };
  // Whether a run has waited since the last time, with something to offer or results to come.
  auto hangs = [&] {
    V waits = rest;
    for (int i = 0; i < RUNS; i++) waits[i / 64] |= uint64_t(runs[i].owed > 0) << i % 64;
    waits &= ~moved;
    moved = zero;
    return any(waits);
  };

  const auto start = std::chrono::steady_clock::now();
  if (status == 0) {
    s.rst = ones;
    clocked();
    clocked();
    s.rst = zero;
    while (status == 0 && (any(rest) || size_t(taken) < items)) {
      cycle(false);
      cycles++;
      if (++unseen >= timeout) {
        if (hangs()) status = 3;
        unseen = 0;
      }
    }
    for (int i = 0; i < 256 && status == 0; i++) cycle(true);
    if (std::fwrite(results.data(), 4, results.size(), output) != results.size()) status = 1;
  }
  if (output && std::fclose(output) != 0) status = 1;
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf("{\"status\": %d, \"blocks\": %ld, \"results\": %ld, \"cycles\": %ld, \"seconds\": %.6f, "
              "\"unit_seconds\": %.6f}\n",
              status, blocks, taken, cycles, seconds.count(), unit.count());
  return 0;
}
