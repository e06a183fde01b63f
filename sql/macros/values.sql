-- Whether a JSON text may be one of several texts for the same value: it holds a number with a
-- fraction, an exponent or a negative zero, an escaped control character, or is a string with white
-- space (or any character that might be white space to Python) at an end. The text is as DuckDB's
-- json_extract writes it: without spaces between values.
create or replace macro needs_normalising(value_json) as
    regexp_matches(value_json, '(?:^|[:,\[])(?:-?[0-9]+[.eE]|-0)|\\u00|^"(\s|\\[tnrf]|[^ -~])|(\s|\\[tnrf]|[^ -~])"$');

-- Whether a text is empty or holds nothing but what Python's strip takes for white space.
-- example: is_blank(' ') is true
create or replace macro is_blank(value) as
    value is null
    or regexp_full_match(
        value, '[\s\x0b\x1c-\x1f\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]*'
    );
