-- Whether a JSON text may be one of several texts for the same value: it holds a fraction or an
-- exponent, an escaped control character, or is a string with white space (or any character that
-- might be white space to Python) at an end.
create or replace macro needs_normalising(value_json) as
    regexp_matches(value_json, '[0-9][.eE]|-0|\\u00|^"(\s|\\[tnrf]|[^ -~])|(\s|\\[tnrf]|[^ -~])"$');
