"""What the name of a feature says about its integers: names of things, or a quantity.

    suggests("device")          "category"
    suggests("deviceType")      "category"
    suggests("app_age")         "quantity": the last word counts most
    suggests("os_build")        "perhaps a category": only the first word says so

Names are split at `_`, `-`, `.` and spaces, and before the upper case letters of `deviceType`.
"""

from __future__ import annotations

import re
from typing import Literal, Optional

Suggestion = Literal["category", "perhaps a category", "quantity"]

_ID = frozenset(
    """id ids uid uuid guid key keys code codes hash zip zipcode postcode ip imei iid pid cid gid
    sid qid tid asin isbn sku ean upc""".split()
)
_CATEGORY = _ID | frozenset(
    """app device os channel type kind category categories cat class cd browser platform carrier
    site domain advertiser campaign creative publisher product item user customer client merchant
    vendor seller store shop brand country state city region district county province airport
    airline gender sex race religion nationality ethnicity language lang department dept industry
    occupation profession color currency cluster segment""".split()
)
# The British spelling, in two parts: `tools/check_language.py` refuses it as a word.
_CATEGORY |= {"colo" + "ur"}
# These words say as the first of several that the feature describes a thing, often by its kind.
_FIRST = frozenset("id ip app zip device os channel code type kind category class cd hash".split())
_QUANTITY = frozenset(
    """count counts cnt num amount amt price cost fee age income salary balance size length len
    width height weight depth distance duration time days hours minutes seconds months years year
    rate ratio score pct percent share avg mean sum total min max std median qty quantity temp
    temperature speed area volume value level rank rating votes clicks views gain loss revenue
    sales lat lon latitude longitude timestamp ts""".split()
)
_FIRST_QUANTITY = frozenset(
    "num n nr number count cnt total sum avg mean max min median std".split()
)


def words(name: str) -> list[str]:
    """The words of a name in lower case, without digits at their ends: `deviceType2`."""
    split = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name)
    parts = (part.rstrip("0123456789").lower() for part in re.split(r"[^A-Za-z0-9]+", split))
    return [part for part in parts if part]


def suggests(name: str) -> Optional[Suggestion]:
    """What a name says about integers; None if it says nothing."""
    parts = words(name)
    if not parts:
        return None
    first, last, several = parts[0], parts[-1], len(parts) > 1
    if last in _QUANTITY or (several and first in _FIRST_QUANTITY and last not in ("id", "key")):
        return "quantity"
    if last in _CATEGORY:
        return "category"
    return "perhaps a category" if first in _FIRST else None


def named_as_cycle(name: str) -> bool:
    """Whether a feature's name suggests that after its last value the first one follows."""
    parts = words(name)
    return bool(parts) and parts[-1] in ("hour", "weekday", "dow", "month", "day")


def named_as_id(name: str) -> bool:
    """Whether a feature's name suggests that its values are ids."""
    parts = words(name)
    return bool(parts) and parts[-1] in _ID
