"""Reserved words of the languages that are written: no name may be one of them."""

_C = """
auto break case char const continue default do double else enum extern float for goto if inline
int long register restrict return short signed sizeof static struct switch typedef union unsigned
void volatile while
"""
_CPP = """
alignas alignof and and_eq asm bitand bitor bool catch char16_t char32_t char8_t class co_await
co_return co_yield compl concept const_cast consteval constexpr constinit decltype delete
dynamic_cast explicit export false friend mutable namespace new noexcept not not_eq nullptr
operator or or_eq private protected public reinterpret_cast requires static_assert static_cast
template this thread_local throw true try typeid typename using virtual wchar_t xor xor_eq
"""
_SAIL = """
and as assert backwards bitfield bitone bitzero by cast catch clause config configuration constant
constraint dec default do downto effect else end enum exit false forall foreach forwards from
function if impl import impure in inc infix infixl infixr instantiation internal_assume
internal_plet internal_return let mapping match module monadic mutual newtype operator outcome
overload private pure ref register repeat return scattered sizeof struct termination_measure then
throw to true try type undefined union until val var when where while with
"""
_SYSTEMVERILOG = """
accept_on alias always always_comb always_ff always_latch and assert assign assume automatic
before begin bind bins binsof bit break buf bufif0 bufif1 byte case casex casez cell chandle
checker class clocking cmos config const constraint context continue cover covergroup coverpoint
cross deassign default defparam design disable dist do edge else end endcase endchecker endclass
endclocking endconfig endfunction endgenerate endgroup endinterface endmodule endpackage
endprimitive endprogram endproperty endsequence endspecify endtable endtask enum event eventually
expect export extends extern final first_match for force foreach forever fork forkjoin function
generate genvar global highz0 highz1 if iff ifnone ignore_bins illegal_bins implements implies
import incdir include initial inout input inside instance int integer interconnect interface
intersect join join_any join_none large let liblist library local localparam logic longint
macromodule matches medium modport module nand negedge nettype new nexttime nmos nor
noshowcancelled not notif0 notif1 null or output package packed parameter pmos posedge primitive
priority program property protected pull0 pull1 pulldown pullup pulsestyle_ondetect
pulsestyle_onevent pure rand randc randcase randsequence rcmos real realtime ref reg reject_on
release repeat restrict return rnmos rpmos rtran rtranif0 rtranif1 s_always s_eventually
s_nexttime s_until s_until_with scalared sequence shortint shortreal showcancelled signed small
soft solve specify specparam static string strong strong0 strong1 struct super supply0 supply1
sync_accept_on sync_reject_on table tagged task this throughout time timeprecision timeunit tran
tranif0 tranif1 tri tri0 tri1 triand trior trireg type typedef union unique unique0 unsigned until
until_with untyped use uwire var vectored virtual void wait wait_order wand weak weak0 weak1 while
wildcard wire with within wor xnor xor
"""

RESERVED = {
    "c": frozenset((_C + _CPP).split()),  # headers are for C++ too
    "sail": frozenset(_SAIL.split()),
    "sv": frozenset(_SYSTEMVERILOG.split()),
}
"""Reserved words in lower case, by the name of the language in `mxdot.model.export`."""
