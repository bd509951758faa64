// Bulk mode of a unit that CXXRTL has written as C++, as sim/bench/bulk.svh has it: records from one
// file, results to another, random gaps and stalls.
//
//     driver RECORDS RESULTS GAP STALL SEED TIMEOUT
//
// design.cc has the unit, pins.h where its ports are in records and results.

#include "design.cc"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

// An output is a value, or the wire of a register.
template <size_t Bits> const cxxrtl::value<Bits> &now(const cxxrtl::value<Bits> &port) { return port; }
template <size_t Bits> const cxxrtl::value<Bits> &now(const cxxrtl::wire<Bits> &port) { return port.curr; }

// Sets a port to the bits of a record from `place` on.
template <size_t Bits> void put(cxxrtl::value<Bits> &port, const uint8_t *record, size_t place) {
  for (size_t i = 0; i < port.chunks; i++) {
    uint32_t chunk = 0;
    size_t count = Bits - 32 * i < 32 ? Bits - 32 * i : 32;
    for (size_t done = 0; done < count;) {
      size_t bit = place + 32 * i + done, inside = bit % 8;
      chunk |= uint32_t(record[bit / 8] >> inside) << done;
      done += 8 - inside;
    }
    port.data[i] = count < 32 ? chunk & ((1u << count) - 1) : chunk;
  }
}

// Puts a port into the words of a result from bit `place` on.
template <class Port> void take(const Port &port, uint32_t *words, size_t place) {
  const auto &bits = now(port);
  for (size_t i = 0; i < bits.chunks; i++) {
    uint64_t wide = uint64_t(bits.data[i]) << place % 32;
    size_t word = place / 32 + i;
    words[word] |= uint32_t(wide);
    if (wide >> 32) words[word + 1] |= uint32_t(wide >> 32);
  }
}

#include "pins.h"

int main(int argc, char **argv) {
  if (argc != 7) return 2;
  const uint32_t gap = std::atoi(argv[3]), stall = std::atoi(argv[4]);
  const int timeout = std::atoi(argv[6]);
  uint32_t random = std::strtoul(argv[5], nullptr, 10);
  if (random == 0) random = 1;
  std::FILE *input = std::fopen(argv[1], "rb"), *output = std::fopen(argv[2], "wb");
  long blocks = 0, results = 0, cycles = 0, expected = 0;
  int status = input && output ? 0 : 1, idle = 0;
  Design design;
  bool valid = false;
  uint8_t record[RECORD_BYTES];

  auto cycle = [&](bool draining) {
    random ^= random << 13;
    random ^= random >> 17;
    random ^= random << 5;
    if (!valid && input && (random & 0xff) >= gap) {
      size_t count = std::fread(record, 1, RECORD_BYTES, input);
      if (std::ferror(input)) {
        status = 5;
      } else if (count == 0) {
        std::fclose(input);
        input = nullptr;
      } else if (count != RECORD_BYTES) {
        status = 2;
      } else {
        for (size_t i = 0; i < RECORD_BYTES / 2; i++) std::swap(record[i], record[RECORD_BYTES - 1 - i]);
        put_record(design, record);
        valid = true;
      }
    }
    bool ready = draining || ((random >> 8) & 0xff) >= stall;
    design.p_clk.set(false);
    design.p_in__valid.set(valid);
    design.p_out__ready.set(ready);
    design.step();
    idle++;
    bool sent = valid && now(design.p_in__ready).template get<bool>();
    if (sent) {
      blocks++;
      expected += results_of_record(design);
      idle = 0;
    }
    if (ready && now(design.p_out__valid).template get<bool>()) {
      uint32_t words[RESULT_WORDS + 1] = {};
      take_result(design, words);
      std::fwrite(words, 4, RESULT_WORDS, output);
      results++;
      idle = 0;
    }
    design.p_clk.set(true);
    design.step();
    if (sent) valid = false;
  };

  auto start = std::chrono::steady_clock::now();
  if (status == 0) {
    design.p_rst.set(true);
    for (int i = 0; i < 2; i++) {
      design.p_clk.set(false);
      design.step();
      design.p_clk.set(true);
      design.step();
    }
    design.p_rst.set(false);
    while (status == 0 && (input || valid || results < expected)) {
      cycle(false);
      cycles++;
      if (idle > timeout) status = 3;
      if (results > expected) status = 4;
    }
    for (int i = 0; i < 256 && status == 0; i++) cycle(true);
    if (status == 0 && results > expected) status = 4;
  }
  if (output && std::fclose(output) != 0) status = 1;
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf("{\"status\": %d, \"blocks\": %ld, \"results\": %ld, \"cycles\": %ld, \"seconds\": %.6f}\n",
              status, blocks, results, cycles, seconds.count());
  return 0;
}
