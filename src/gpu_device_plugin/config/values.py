"""Values of flags and variables: from text to what the kind of the option says."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gpu_device_plugin.config.durations import EXAMPLES, format_duration, parse_duration
from gpu_device_plugin.config.numbers import parse_float, parse_int64
from gpu_device_plugin.config.option import Kind, Option, Value
from gpu_device_plugin.config.text import quote
from gpu_device_plugin.errors import UsageError

TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})

BLANKS = (  # what Go trims, which is not quite what Python strips
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)

_EMPTY: Mapping[Kind, Value] = {Kind.BOOL: False, Kind.TEXT: "", Kind.TEXTS: ("",)}

_HINTS = {
    Kind.BOOL: "true, false, 1, 0, t or f",
    Kind.INTEGER: "a whole number of 64 bits",
    Kind.INTEGERS: "whole numbers, separated by commas",
    Kind.NUMBER: "a number",
    Kind.DURATION: EXAMPLES,
}


def read_value(option: Option, origin: str, text: str) -> Value:
    """Reads the text that a flag or variable gives to an option.

    Options of our own accept only the values they allow; those of the original are validated
    together with the configuration file, which has other values to offer.

    Raises:
        UsageError: names the origin, what is wrong, and what is allowed.
    """
    try:
        value = _READERS[option.kind](text)
    except ValueError as error:
        raise UsageError(f"{origin}: {quote(text)} is {error}", allowed_values(option)) from None
    if option.ours and option.allowed:
        for item in value if isinstance(value, tuple) else (value,):
            if item not in option.allowed:
                raise UsageError(
                    f"{origin}: {quote(str(item))} is not allowed", allowed_values(option)
                )
    if option.least and isinstance(value, int) and value and value < option.least:
        raise UsageError(f"{origin}: {quote(text)} is too small", allowed_values(option))
    return value


def read_variable(option: Option, name: str, text: str) -> Value | None:
    """Reads the text of a variable, which may be empty; None if that counts as undefined.

    QUIRK: an empty variable turns a boolean off, and makes a list of one empty text.

    Raises:
        UsageError: names the variable, what is wrong, and what is allowed.
    """
    if text:
        return read_value(option, name, text)
    return None if option.ours and option.allowed else _EMPTY.get(option.kind)


def allowed_values(option: Option) -> str:
    """``allowed: uuid, index``, or the form of the value; empty if every text is allowed."""
    hint = ", ".join(option.allowed) or _HINTS.get(option.kind, "")
    if option.least:
        least = format_duration(option.least) if option.kind is Kind.DURATION else option.least
        hint = f"0, or {least} and more, {hint}"
    return hint and f"allowed: {hint}"


def _read_bool(text: str) -> bool:
    if text not in TRUE | FALSE:
        raise ValueError("not a boolean")
    return text in TRUE


def _read_texts(text: str) -> tuple[str, ...]:
    return tuple(item.strip(BLANKS) for item in text.split(","))


def _read_integers(text: str) -> tuple[int, ...]:
    return tuple(parse_int64(item) for item in _read_texts(text))


_READERS: Mapping[Kind, Callable[[str], Value]] = {
    Kind.TEXT: str,
    Kind.BOOL: _read_bool,
    Kind.TEXTS: _read_texts,
    Kind.INTEGERS: _read_integers,
    Kind.INTEGER: parse_int64,
    Kind.NUMBER: parse_float,
    Kind.DURATION: parse_duration,
}
