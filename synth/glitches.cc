// Simulates a mapped netlist with the delay of each cell, and counts what changes in which state.
//
//   glitches DESIGN STIMULUS RESULT [VCD]
//
// Delays are inertial: an output that is called back before its delay is over does not change. A
// cell's state is a number: one bit per input pin, then one per variable of a flip-flop.
// synth/glitches.py writes DESIGN and STIMULUS, reads RESULT, and names every array.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

using std::vector;

static const int LOG_WHEEL = 16, WHEEL = 1 << LOG_WHEEL;  // longest delay in ticks

template <typename T>
static vector<T> take(FILE* file) {
  int64_t size;
  if (fread(&size, 8, 1, file) != 1) exit(3);
  vector<T> values(size);
  if (size && fread(values.data(), sizeof(T), size, file) != size_t(size)) exit(3);
  return values;
}

template <typename T>
static void give(FILE* file, const vector<T>& values) {
  if (fwrite(values.data(), sizeof(T), values.size(), file) != values.size()) exit(4);
}

struct Cell {
  int bits;           // of the state
  int first, last;    // outputs
  int clock;          // place of the clock pin, -1 for a gate
  int variable;       // place of the first variable
  int next;           // offset of the variables' next values in `truth`
  int pins, states;   // offsets of counts
  uint32_t begin;     // first state: constant pins
};

struct Output {
  int net, cell, truth, delays, counts;
};

static vector<Cell> cells;
static vector<Output> outputs;
static vector<uint8_t> truth;
static vector<int32_t> delays, fan_from, fan_cell, fan_pin;
static vector<uint32_t> state;
static vector<uint8_t> value;

// Events: at most one per source, in a list per tick. A source is an output or an input bit.
static vector<int32_t> after, before, heads(WHEEL, -1), due;
static vector<uint32_t> cause;  // (pin << bits) | state, when the event was made
static vector<uint64_t> busy(WHEEL / 64, 0);
static int64_t now, waiting;

static vector<uint32_t> pin_counts, output_counts, state_counts, changes, settled;

static void schedule(int source, int delay) {
  int slot = (now + delay) & (WHEEL - 1);
  due[source] = slot;
  before[source] = -1;
  after[source] = heads[slot];
  if (heads[slot] >= 0) before[heads[slot]] = source;
  heads[slot] = source;
  busy[slot >> 6] |= 1ull << (slot & 63);
  waiting++;
}

static void cancel(int source) {
  int slot = due[source];
  if (before[source] >= 0) after[before[source]] = after[source];
  else heads[slot] = after[source];
  if (after[source] >= 0) before[after[source]] = before[source];
  if (heads[slot] < 0) busy[slot >> 6] &= ~(1ull << (slot & 63));
  due[source] = -1;
  waiting--;
}

// Advance `now` to the next event.
static void seek() {
  int slot = now & (WHEEL - 1);
  uint64_t word = busy[slot >> 6] >> (slot & 63);
  if (word) { now += __builtin_ctzll(word); return; }
  now += 64 - (slot & 63);
  for (;;) {
    word = busy[(now & (WHEEL - 1)) >> 6];
    if (word) { now += __builtin_ctzll(word); return; }
    now += 64;
  }
}

static void reach(int index, int pin) {
  Cell& cell = cells[index];
  uint32_t s = state[index] ^= 1u << pin;
  pin_counts[cell.pins + (pin << cell.bits) + s]++;
  if (cell.clock >= 0) return;
  int came = s >> pin & 1;
  for (int o = cell.first; o < cell.last; o++) {
    const Output& output = outputs[o];
    bool wanted = truth[output.truth + s], is = value[output.net];
    if (due[o] >= 0) {
      if (wanted == is) cancel(o);
    } else if (wanted != is) {
      cause[o] = (uint32_t(pin) << cell.bits) + s;
      schedule(o, delays[output.delays + pin * 4 + came * 2 + wanted]);
    }
  }
}

static FILE* vcd;
static int64_t vcd_start, vcd_last = -1;
static double tick_fs;
static int named;  // nets with a name: open outputs have none

static std::string label(int net) {
  std::string text;
  do text += char('!' + net % 94); while ((net /= 94) > 0);
  return text;
}

static void stamp(int64_t time) {
  if (time != vcd_last) fprintf(vcd, "#%lld\n", (long long)(time * tick_fs + 0.5));
  vcd_last = time;
}

static void flip(int net) {
  value[net] ^= 1;
  changes[net]++;
  if (vcd && net < named) {
    stamp(vcd_start + now);
    fprintf(vcd, "%d%s\n", value[net], label(net).c_str());
  }
  for (int f = fan_from[net]; f < fan_from[net + 1]; f++) reach(fan_cell[f], fan_pin[f]);
}

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  FILE* file = fopen(argv[1], "rb");
  if (!file) return 3;
  auto sizes = take<int32_t>(file);  // nets, clock's net for the VCD, half period in ticks
  auto ticks = take<double>(file);
  auto table = take<int32_t>(file);
  auto outs = take<int32_t>(file);
  truth = take<uint8_t>(file);
  delays = take<int32_t>(file);
  fan_from = take<int32_t>(file);
  fan_cell = take<int32_t>(file);
  fan_pin = take<int32_t>(file);
  auto input_nets = take<int32_t>(file);
  auto arrivals = take<int32_t>(file);  // rise and fall of each input
  auto result_nets = take<int32_t>(file);
  auto names = take<int32_t>(file);
  fclose(file);
  named = names[0];
  int nets = sizes[0], inputs = input_nets.size();
  int64_t half = sizes[2];
  tick_fs = ticks[0];
  int64_t pins = 0, places = 0, states = 0;
  for (size_t i = 0; i < table.size(); i += 7) {
    Cell cell{table[i], table[i + 1], table[i + 2], table[i + 3], table[i + 4], table[i + 5],
              int(pins), int(states), uint32_t(table[i + 6])};
    cells.push_back(cell);
    pins += int64_t(cell.bits) << cell.bits;
    states += int64_t(1) << cell.bits;
  }
  for (size_t i = 0; i < outs.size(); i += 4) {
    int bits = cells[outs[i + 1]].bits;
    outputs.push_back({outs[i], outs[i + 1], outs[i + 2], outs[i + 3], int(places)});
    places += int64_t(bits) << bits;
  }
  int sources = outputs.size() + inputs;
  after.assign(sources, -1); before.assign(sources, -1); due.assign(sources, -1);
  cause.assign(sources, 0);
  pin_counts.assign(pins, 0); output_counts.assign(places, 0); state_counts.assign(states, 0);
  changes.assign(nets, 0); settled.assign(nets, 0);
  vector<uint8_t> settled_value(nets), results;

  file = fopen(argv[2], "rb");
  if (!file) return 3;
  auto shape = take<int32_t>(file);  // streams, cycles, cycles that do not count
  auto stimulus = take<uint8_t>(file);
  fclose(file);
  int streams = shape[0], cycles = shape[1], skipped = shape[2];

  FILE* record = nullptr;
  if (argc > 4) {
    record = fopen(argv[4], "a");  // after its declarations
    if (!record) return 4;
  }

  vector<uint32_t> saved_pins, saved_outputs, saved_states, saved_changes, saved_settled;
  for (int stream = 0; stream < streams; stream++) {
    const uint8_t* row = &stimulus[size_t(stream) * cycles * inputs];
    // Counts of skipped cycles are taken back.
    saved_pins = pin_counts; saved_outputs = output_counts; saved_states = state_counts;
    saved_changes = changes; saved_settled = settled;
    value.assign(nets, 0);
    state.clear();
    for (auto& cell : cells) state.push_back(cell.begin);
    auto set = [&](int net) {  // without delay, before the first cycle
      value[net] = 1;
      for (int f = fan_from[net]; f < fan_from[net + 1]; f++)
        state[fan_cell[f]] |= 1u << fan_pin[f];
    };
    for (int i = 0; i < inputs; i++)
      if (row[i]) set(input_nets[i]);
    for (auto& output : outputs)  // flip-flops first, then gates in order
      if (truth[output.truth + state[output.cell]]) set(output.net);
    settled_value = value;
    for (int cycle = 0; cycle < cycles; cycle++, row += inputs) {
      if (cycle == skipped) {
        pin_counts = saved_pins; output_counts = saved_outputs; state_counts = saved_states;
        changes = saved_changes; settled = saved_settled;
      }
      now = 0;
      vcd_start = 2 * half * (cycle - skipped);
      vcd = stream == 0 && cycle >= skipped ? record : nullptr;
      if (vcd && cycle == skipped) {
        fprintf(vcd, "#0\n$dumpvars\n");
        vcd_last = 0;
        for (int net = 0; net < named; net++)
          if (net != sizes[1]) fprintf(vcd, "%d%s\n", value[net], label(net).c_str());
        fprintf(vcd, "$end\n");
      }
      if (vcd && sizes[1] >= 0) {
        stamp(vcd_start);
        fprintf(vcd, "1%s\n", label(sizes[1]).c_str());
      }
      if (cycle > 0) {  // the clock rises: all flip-flops look, then change
        for (size_t c = 0; c < cells.size(); c++) {
          Cell& cell = cells[c];
          if (cell.clock < 0) continue;
          uint32_t s = state[c];
          uint32_t risen = s | 1u << cell.clock;
          pin_counts[cell.pins + (cell.clock << cell.bits) + risen]++;
          uint32_t next = risen & ((1u << cell.variable) - 1);
          for (int v = cell.variable; v < cell.bits; v++)
            next |= uint32_t(truth[cell.next + ((v - cell.variable) << cell.bits) + s]) << v;
          state[c] = next;
          for (int o = cell.first; o < cell.last; o++) {
            const Output& output = outputs[o];
            bool wanted = truth[output.truth + next];
            if (wanted == value[output.net]) continue;
            cause[o] = (uint32_t(cell.clock) << cell.bits) + next;
            schedule(o, delays[output.delays + cell.clock * 4 + 2 + wanted]);
          }
        }
        for (int i = 0; i < inputs; i++)
          if (row[i] != value[input_nets[i]])
            schedule(outputs.size() + i, arrivals[2 * i + row[i]]);
      }
      bool has_fallen = false;
      auto fall = [&]() {
        has_fallen = true;
        if (vcd && sizes[1] >= 0) {
          stamp(vcd_start + half);
          fprintf(vcd, "0%s\n", label(sizes[1]).c_str());
        }
        if (cycle == 0) return;
        for (size_t c = 0; c < cells.size(); c++) {
          Cell& cell = cells[c];
          if (cell.clock < 0) continue;
          uint32_t s = state[c] &= ~(1u << cell.clock);
          pin_counts[cell.pins + (cell.clock << cell.bits) + s]++;
        }
      };
      while (waiting) {
        seek();
        if (!has_fallen && now >= half) fall();
        int slot = now & (WHEEL - 1), source = heads[slot];
        cancel(source);
        if (source < int(outputs.size())) {
          output_counts[outputs[source].counts + cause[source]]++;
          flip(outputs[source].net);
        } else {
          flip(input_nets[source - outputs.size()]);
        }
      }
      if (!has_fallen) fall();
      if (vcd && now >= 2 * half) return 6;
      for (size_t c = 0; c < cells.size(); c++) state_counts[cells[c].states + state[c]]++;
      for (int net = 0; net < nets; net++) settled[net] += value[net] != settled_value[net];
      settled_value = value;
      for (int net : result_nets) results.push_back(value[net]);
    }
  }
  if (record) {
    fprintf(record, "#%lld\n", (long long)(2 * half * (cycles - skipped) * tick_fs + 0.5));
    if (fclose(record)) return 4;
  }
  file = fopen(argv[3], "wb");
  if (!file) return 4;
  give(file, pin_counts); give(file, output_counts); give(file, state_counts);
  give(file, changes); give(file, settled); give(file, results);
  return fclose(file) ? 4 : 0;
}
