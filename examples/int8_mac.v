// INT8 multiply-adds into 32-bit integers: one a cycle (int8_mac), and LANES a cycle into one sum
// (int8_array). The plainest there is: no scales, no floating point, no flags, no back pressure.
// Written for docs/accumulators.md; tests/compare/test_examples.py checks what they compute.

module int8_mac (
    input             clk,
    input             in_valid,
    input             in_first,  // starts a dot product: the sum so far is dropped
    input      [7:0]  in_a,
    input      [7:0]  in_b,
    output reg [31:0] out_sum
);
    wire [15:0] product;
    wire [31:0] before = in_first ? 32'd0 : out_sum;

    int8_product multiply (.a(in_a), .b(in_b), .p(product));

    always @(posedge clk) if (in_valid) out_sum <= before + {{16{product[15]}}, product};
endmodule

module int8_array #(
    parameter LANES = 32  // up to 32
) (
    input                    clk,
    input                    in_valid,
    input                    in_first,
    input      [8*LANES-1:0] in_a,
    input      [8*LANES-1:0] in_b,
    output reg [31:0]        out_sum  // two cycles later than in int8_mac
);
    wire [16*LANES-1:0] products;
    wire [20:0]         total;
    reg  [16*LANES-1:0] products_register;
    reg  [20:0]         total_register;
    reg  [1:0]          valid, first;
    wire [31:0]         before = first[1] ? 32'd0 : out_sum;

    int8_products #(LANES) multiply (.a(in_a), .b(in_b), .products(products));
    int8_sum #(LANES) sum (.products(products_register), .total(total));

    always @(posedge clk) begin
        products_register <= products;
        total_register <= total;
        valid <= {valid[0], in_valid};
        first <= {first[0], in_first};
        if (valid[1]) out_sum <= before + {{11{total_register[20]}}, total_register};
    end
endmodule

module int8_products #(
    parameter LANES = 32
) (
    input  [8*LANES-1:0]  a,
    input  [8*LANES-1:0]  b,
    output [16*LANES-1:0] products
);
    genvar lane;

    generate
        for (lane = 0; lane < LANES; lane = lane + 1) begin : lanes
            int8_product multiply (
                .a(a[8*lane+:8]), .b(b[8*lane+:8]), .p(products[16*lane+:16])
            );
        end
    endgenerate
endmodule

module int8_sum #(
    parameter LANES = 32
) (
    input      [16*LANES-1:0]   products,
    output reg signed [20:0]    total
);
    integer i;

    always @* begin
        total = 0;
        for (i = 0; i < LANES; i = i + 1) total = total + $signed(products[16*i+:16]);
    end
endmodule

// Signed 8 x 8 bits (Baugh and Wooley): eight rows of partial products, those of a sign bit
// inverted, and a constant. Yosys makes it a fifth smaller than `$signed(a) * $signed(b)`.
module int8_product (
    input      [7:0]  a,
    input      [7:0]  b,
    output reg [15:0] p
);
    integer i;

    always @* begin
        p = 16'h8100;
        for (i = 0; i < 8; i = i + 1)
            p = p + ({8'd0, (a & {8{b[i]}}) ^ (i == 7 ? 8'h7f : 8'h80)} << i);
    end
endmodule
