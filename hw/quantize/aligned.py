"""An element on its grid, as it goes from the aligner to the encoder."""

from amaranth.lib import data

from ...model.units.quantize import QuantizeConfig
from .widths import LaneWidths


class AlignedLayout(data.StructLayout):
    """magnitude = (significand + discarded) x 2^field in units of the element format's last place.

    significand: at the low end where the format has fewer mantissa bits than others; the hidden one
    included. discarded: the fraction below, to 32 places, or a guard bit over a sticky one.
    """

    def __init__(self, config: QuantizeConfig) -> None:
        widths = LaneWidths(config)
        super().__init__(
            {
                "significand": widths.significand_bits,
                "discarded": widths.discarded_bits,
                "field": widths.field_bits,
                "sign": 1,
                "nan": 1,
                "infinite": 1,
            }
        )
