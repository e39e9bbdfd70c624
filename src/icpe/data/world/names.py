"""Ids, genres and invented band names for generated worlds."""

import numpy as np
import polars as pl

GENRES = (
    "ambient",
    "blues",
    "classical",
    "country",
    "electronic",
    "folk",
    "hip hop",
    "jazz",
    "metal",
    "pop",
    "reggae",
    "rock",
)

_FIRST = """
Amber Ancient Arctic Autumn Bitter Black Blind Blue Borrowed Brass Bright Broken Burning Candid Cardinal Careful Cedar
Central Chrome Clever Cobalt Cold Copper Coral Counting Crimson Crooked Crystal Curious Daily Dancing Daring Distant
Double Driftwood Dusty Early Eastern Echo Eleventh Emerald Empty Endless Evening Faded Falling Feral Final Floating
Foreign Forgotten Fragile Frozen Gentle Gilded Glass Golden Grand Green Grey Hidden Hollow Honest Humble Hungry Idle
Indigo Inner Iron Ivory Jade Kind Late Little Lonely Lost Loud Lucid Lucky Magnetic Marble Merry Midnight Minor Modern
Morning Mute Neon Nervous Northern Open Orange Outer Painted Paper Patient Perfect Plain Polar Polite Pretty Private
Proud Purple Quiet Rapid Restless Rising Royal Ruby Rusty Sacred Salt Scarlet Second Secret Seventh Silent Silver
Simple Sleeping Slow Small Southern Spare Stolen Stone Stray Sudden Summer Sunken Tender Thirsty Tidal Tiny Twin Upper
Velvet Violet Wandering Western Whispering White Wild Winter Wooden Yellow Young
"""

_SECOND = """
Academy Acrobats Airport Alley Anchor Anthem Apartment Arcade Archive Arrow Astronauts Atlas Avenue Balcony Ballroom
Bandits Basement Beacon Bicycle Birds Bridge Brothers Cabinet Camera Canyon Captains Caravan Carnival Cartel Castle
Cathedral Chapel Choir Cinema Circus Citizens Clocks Club Coast Collective Comet Company Compass Council Cousins
Cowboys Creek Dancers Daughters Detectives Diary Divers Dreamers Drummers Elevator Embassy Engine Envelope Exit
Expedition Factory Fathoms Fever Field Fiction Foxes Garden Gardeners Gate Ghosts Giants Gravity Harbour Harvest Heron
Highway Holiday Horizon Horses Hotel Island Jury Kettle Keys Kingdom Kites Ladder Lagoon Lanterns Letters Library
Lighthouse Lions Machine Magpies Mansion Map Market Meadow Messengers Mill Mirror Monument Moon Motel Mountain Museum
Neighbours Noise Novel Ocean Oracle Orchard Orchestra Owls Palace Parade Parlour Passport Pavilion Pilots Pirates
Planet Poets Postcards Prairie Promise Quarter Radio Railway Ravens Receivers Reservoir Rhythm Riders River Rivals
Rockets Rooftop Runners Sailors Satellite Season Shadows Shelter Signals Sisters Sleepers Society Sparrows Spiral
Station Stereo Strangers Sundays Sweaters Swimmers Telegraph Theatre Thieves Thunder Tigers Tower Traffic Trains
Travellers Tribunal Tunnel Umbrella Union Valley Vessel Village Voyage Waltz Waves Weather Whales Window Wolves
"""

_VALUES = (1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1)
_LETTERS = ("M", "CM", "D", "CD", "C", "XC", "L", "XL", "X", "IX", "V", "IV", "I")


def make_ids(prefix: str, count: int) -> pl.Series:
    """``count`` ids, zero-padded so that their text order is their numerical order.

    Example:
        >>> make_ids("u", 3).to_list()
        ['u0000', 'u0001', 'u0002']
    """
    width = max(4, len(str(count - 1)))
    return prefix + pl.int_range(count, eager=True).cast(pl.String).str.zfill(width)


def make_names(count: int, rng: np.random.Generator) -> pl.Series:
    """``count`` different two-word names. A Roman numeral is added when all combinations are used up."""
    first, second = pl.Series(_FIRST.split()), pl.Series(_SECOND.split())
    combinations = len(first) * len(second)
    turn, place = np.divmod(np.arange(count), combinations)
    one, other = np.divmod(rng.permutation(combinations)[place], len(second))
    suffix = pl.Series([""] + [f" {_roman(number)}" for number in range(2, turn[-1] + 2)]).gather(turn)
    return (first.gather(one) + " " + second.gather(other) + suffix).alias("name")


def _roman(number: int) -> str:
    """Write a positive number in Roman numerals.

    >>> [_roman(number) for number in (2, 9, 14, 1984)]
    ['II', 'IX', 'XIV', 'MCMLXXXIV']
    """
    text = ""
    for value, letters in zip(_VALUES, _LETTERS, strict=True):
        times, number = divmod(number, value)
        text += letters * times
    return text
