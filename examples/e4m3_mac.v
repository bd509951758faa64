// One E4M3 multiply-add a cycle into a floating-point sum: the exact product, one addition, rounded
// to nearest, ties to even. The sum has 8 exponent bits and FRACTION fraction bits, 7 to 26: 23 is
// float32, 10 has the precision of float16. Sums of E4M3 products are multiples of 2^-18 and stay
// far below 2^128, so that there is no logic for subnormals, overflow and infinities of the sum.
// Written for docs/accumulators.md; tests/compare/test_examples.py checks what it computes.

module e4m3_mac #(
    parameter FRACTION = 23
) (
    input                       clk,
    input                       in_valid,
    input                       in_first,  // starts a dot product: the sum so far is dropped
    input      [7:0]            in_a,
    input      [7:0]            in_b,
    output reg [FRACTION+8:0]   out_sum,   // sign, exponent (bias 127), fraction
    output reg                  out_nan    // an element was NaN
);
    wire [FRACTION+8:0] before = in_first ? {FRACTION + 9{1'b0}} : out_sum;
    wire                sign_p, nan_p, sign, subtract;
    wire [15:0]         product;
    wire [7:0]          exponent;
    wire [FRACTION:0]   large;
    wire [FRACTION+3:0] small;
    wire [FRACTION+4:0] total, normal;
    wire [4:0]          amount;
    wire [FRACTION+7:0] rounded;

    e4m3_product multiply (.a(in_a), .b(in_b), .sign(sign_p), .product(product), .nan(nan_p));

    mac_align #(FRACTION) align (
        .sign_p(sign_p), .product(product), .before(before),
        .sign(sign), .subtract(subtract), .exponent(exponent), .large(large), .small(small)
    );

    mac_sum #(FRACTION) sum (.subtract(subtract), .large(large), .small(small), .total(total));

    mac_normalize #(FRACTION) normalize (.total(total), .normal(normal), .amount(amount));

    mac_round #(FRACTION) round (
        .exponent(exponent), .amount(amount), .normal(normal), .rounded(rounded)
    );

    always @(posedge clk)
        if (in_valid) begin
            out_sum <= total == 0 ? {FRACTION + 9{1'b0}} : {sign, rounded};
            out_nan <= nan_p | (out_nan & ~in_first);
        end
endmodule

// product: exponent (bias 127) and significand of 8 bits, normalised; zero has exponent 0.
module e4m3_product (
    input  [7:0]  a,
    input  [7:0]  b,
    output        sign,
    output [15:0] product,
    output        nan
);
    wire [3:0] exponent_a = a[6:3] | {3'd0, a[6:3] == 0};
    wire [3:0] exponent_b = b[6:3] | {3'd0, b[6:3] == 0};
    wire [7:0] raw = {a[6:3] != 0, a[2:0]} * {b[6:3] != 0, b[2:0]};
    wire [7:0] by4 = raw[7:4] == 0 ? raw << 4 : raw;
    wire [7:0] by2 = by4[7:6] == 0 ? by4 << 2 : by4;
    wire [7:0] significand = by2[7] ? by2 : by2 << 1;
    wire [2:0] zeros = {raw[7:4] == 0, by4[7:6] == 0, ~by2[7]};
    wire [7:0] exponent = raw == 0 ? 8'd0 : exponent_a + exponent_b + 8'd114 - zeros;

    assign sign = a[7] ^ b[7];
    assign product = {exponent, significand};
    assign nan = &a[6:0] | &b[6:0];
endmodule

// The larger of product and sum as it is, the smaller shifted to it, with a guard, a round and a
// sticky bit.
module mac_align #(
    parameter FRACTION = 23
) (
    input                 sign_p,
    input  [15:0]         product,
    input  [FRACTION+8:0] before,
    output                sign,
    output                subtract,
    output [7:0]          exponent,
    output [FRACTION:0]   large,
    output [FRACTION+3:0] small
);
    localparam HIGH = FRACTION + 8;  // {exponent, hidden bit, fraction}
    wire            sign_c = before[FRACTION+8];
    wire [7:0]      exponent_c = before[FRACTION+7:FRACTION];
    wire [HIGH:0]   p = {product, {FRACTION - 7{1'b0}}};
    wire [HIGH:0]   c = {exponent_c, exponent_c != 0, before[FRACTION-1:0]};
    wire            swap = p > c;
    wire [HIGH:0]   first = swap ? p : c;
    wire [HIGH:0]   second = swap ? c : p;
    wire [7:0]      distance = first[HIGH:FRACTION+1] - second[HIGH:FRACTION+1];
    wire [FRACTION+3:0] term = {second[FRACTION:0], 3'd0};
    wire [FRACTION+3:0] shifted = term >> distance;
    wire            lost = shifted << distance != term;

    assign sign = swap ? sign_p : sign_c;
    assign subtract = sign_p ^ sign_c;
    assign exponent = first[HIGH:FRACTION+1];
    assign large = first[FRACTION:0];
    assign small = {shifted[FRACTION+3:1], shifted[0] | lost};
endmodule

module mac_sum #(
    parameter FRACTION = 23
) (
    input                 subtract,
    input  [FRACTION:0]   large,
    input  [FRACTION+3:0] small,
    output [FRACTION+4:0] total
);
    wire [FRACTION+4:0] term = {1'b0, small};

    assign total = {1'b0, large, 3'd0} + (term ^ {FRACTION + 5{subtract}}) + subtract;
endmodule

module mac_normalize #(
    parameter FRACTION = 23
) (
    input      [FRACTION+4:0] total,
    output reg [FRACTION+4:0] normal,
    output reg [4:0]          amount
);
    localparam HIGH = FRACTION + 4;
    integer k;

    always @* begin
        normal = total;
        amount = 0;
        for (k = 4; k >= 0; k = k - 1)
            if ((1 << k) <= HIGH && normal >> (HIGH + 1 - (1 << k)) == 0) begin
                normal = normal << (1 << k);
                amount = amount + (1 << k);
            end
    end
endmodule

// A carry of the rounding runs into the exponent.
module mac_round #(
    parameter FRACTION = 23
) (
    input  [7:0]          exponent,
    input  [4:0]          amount,
    input  [FRACTION+4:0] normal,
    output [FRACTION+7:0] rounded
);
    wire       up = normal[3] & (normal[4] | normal[2:0] != 0);
    wire [7:0] shifted = exponent + 8'd1 - amount;

    assign rounded = {shifted, normal[FRACTION+3:4]} + up;
endmodule
