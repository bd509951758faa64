// The program of a simulation: cocotb's, or with options +bulk_... the bench top alone, without
// Python, whose start takes longer than many a bulk run.
//
// The bench top then runs until $finish; "bulk seconds" in the log is the wall-clock time of that.

#define main cocotb_main
#include "verilator.cpp"  // cocotb's own program
#undef main

#include <chrono>
#include <cstring>

namespace {

int run_alone(int argc, char **argv) {
    const char *trace_file = nullptr;
    bool per_instance = false;
    for (int i = 1; i < argc; ++i) {
        if (std::strcmp(argv[i], "--trace-file") == 0 && i + 1 < argc) trace_file = argv[i + 1];
        if (std::strcmp(argv[i], "--coverage-per-instance") == 0) per_instance = true;
    }
    Verilated::commandArgs(argc, argv);
#if VM_COVERAGE
    coverage_per_instance = per_instance;
#endif
    static_cast<void>(per_instance);
    const std::unique_ptr<Vtop> top{new Vtop{""}};
#if VM_TRACE
    Verilated::traceEverOn(true);
    std::unique_ptr<verilated_trace_t> trace;
    if (trace_file != nullptr) {
        trace.reset(new verilated_trace_t);
        top->trace(trace.get(), 99);
        trace->open(trace_file);
    }
#endif
    static_cast<void>(trace_file);
    const auto start = std::chrono::steady_clock::now();
    while (!Verilated::gotFinish()) {
        top->eval();
#if VM_TRACE
        if (trace) trace->dump(main_time);
#endif
        if (!top->eventsPending()) break;
        main_time = top->nextTimeSlot();
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    top->final();
#if VM_TRACE
    if (trace) trace->close();
#endif
#if VM_COVERAGE
    Verilated::threadContextp()->coveragep()->forcePerInstance(coverage_per_instance);
    VerilatedCov::write();
#endif
    std::printf("bulk seconds %.9f\n", seconds.count());
    return Verilated::threadContextp()->errorCount() > 0;
}

}  // namespace

int main(int argc, char **argv) {
    for (int i = 1; i < argc; ++i) {
        if (std::strncmp(argv[i], "+bulk_", 6) == 0) return run_alone(argc, argv);
    }
    return cocotb_main(argc, argv);
}
