-- Statistics of proportions, for any DuckDB connection: no Python, no extension.
-- Counts are whole numbers; a count that is NULL makes the answer NULL.

-- Lower end of the 95 % Wilson interval of passes out of n: 0 without a pass, 0 for n = 0.
-- example: wilson_low(7, 10) is 0.3968
create or replace macro wilson_low(passes, n) as case
    when passes is null or n is null or passes < 0 or passes > n then null
    when passes = 0 then 0.0::double
    else greatest(
        0.0::double,
        (
            passes + 1.9207294103470857::double - 1.959963984540054::double
            * sqrt(passes::double * (n - passes) / n + 0.9603647051735428::double)
        ) / (n + 3.8414588206941714::double)
    )
end;

-- Upper end of the 95 % Wilson interval of passes out of n: 1 without a failure, 1 for n = 0.
-- example: wilson_high(7, 10) is 0.8922
create or replace macro wilson_high(passes, n) as case
    when passes is null or n is null or passes < 0 or passes > n then null
    when passes = n then 1.0::double
    else least(
        1.0::double,
        (
            passes + 1.9207294103470857::double + 1.959963984540054::double
            * sqrt(passes::double * (n - passes) / n + 0.9603647051735428::double)
        ) / (n + 3.8414588206941714::double)
    )
end;

-- Whether two 95 % Wilson intervals have a point in common.
-- example: wilson_overlap(9, 10, 1, 10) is false
create or replace macro wilson_overlap(passes_a, n_a, passes_b, n_b) as (
    wilson_low(passes_a, n_a) <= wilson_high(passes_b, n_b)
    and wilson_low(passes_b, n_b) <= wilson_high(passes_a, n_a)
);

-- C(c, k) / C(n, k): the unbiased estimate that k runs of a task all pass, from c passes in n runs.
-- NULL when n < k or k < 1.
-- example: pass_hat_k(7, 10, 3) is 0.2917
create or replace macro pass_hat_k(c, n, k) as case
    when c < 0 or c > n or k < 1 or n < k then null
    when c < k then 0.0::double
    else list_product(list_transform(range(0, k::bigint), lambda i: (c - i)::double / (n - i)))
end;

-- Sample odds ratio of the table (a, b; c, d): a d / (b c). NULL where b or c is 0.
-- example: odds_ratio(8, 2, 5, 5) is 4.0
create or replace macro odds_ratio(a, b, c, d) as (
    case when b > 0 and c > 0 then (a::double * d) / (b::double * c) end
);

-- The logarithm of the weight of the table with first cell x, by its margins; probabilities are
-- proportional to weights.
create or replace macro ln_table_weight(x, row_a, row_b, passed) as (
    -lgamma(x::double + 1) - lgamma((row_a - x)::double + 1)
    - lgamma((passed - x)::double + 1) - lgamma((row_b - passed + x)::double + 1)
);

-- The first cell of the likeliest table.
create or replace macro likeliest_cell(row_a, row_b, passed) as least(
    row_a, passed, ((passed + 1)::double * (row_a + 1) / (row_a + row_b + 2))::bigint
);

-- How far from the likeliest table another can be and still have a probability that a double can
-- hold: 40 standard deviations, and some more for skewed ones.
create or replace macro table_reach(row_a, row_b, passed) as (100 + 40 * sqrt(
    passed::double * row_a / (row_a + row_b) * row_b / (row_a + row_b)
    * (row_a + row_b - passed) / greatest(row_a + row_b - 1, 1)
))::bigint;

-- The logarithms of the weights of all tables within reach, 0 for the likeliest one.
create or replace macro ln_table_weights(row_a, row_b, passed, likeliest, reach) as list_transform(
    range(
        greatest(0, passed - row_b, likeliest - reach),
        least(row_a, passed, likeliest + reach) + 1
    ),
    lambda x: ln_table_weight(x, row_a, row_b, passed)
    - ln_table_weight(likeliest, row_a, row_b, passed)
);

-- Two-sided p-value of Fisher's exact test for the table (a, b; c, d): variants are rows, pass and
-- not pass columns. It sums the probabilities of all tables with the same margins that are no
-- likelier than the one observed; 1 where a row or column is empty. A list of one row binds what is
-- used again. Equal tables may differ by the rounding of lgamma, which grows with the counts.
-- example: fisher_p(9, 1, 3, 7) is 0.0198
create or replace macro fisher_p(a, b, c, d) as case
    when a is null or b is null or c is null or d is null or least(a, b, c, d) < 0 then null
    when 0 in (a + b, c + d, a + c, b + d) then 1.0::double
    else list_transform(
        list_transform(
            [{
                'observed': a::bigint,
                'row_a': (a + b)::bigint,
                'row_b': (c + d)::bigint,
                'passed': (a + c)::bigint,
                'likeliest': likeliest_cell((a + b)::bigint, (c + d)::bigint, (a + c)::bigint),
                'reach': table_reach((a + b)::bigint, (c + d)::bigint, (a + c)::bigint)
            }],
            lambda t: {
                'weights': ln_table_weights(t.row_a, t.row_b, t.passed, t.likeliest, t.reach),
                'observed': ln_table_weight(t.observed, t.row_a, t.row_b, t.passed)
                - ln_table_weight(t.likeliest, t.row_a, t.row_b, t.passed)
                + 1e-9 + 1e-14 * (t.row_a + t.row_b)
            }
        ),
        lambda t: least(
            1.0::double,
            list_sum(list_transform(
                t.weights, lambda w: case when w <= t.observed then exp(w) else 0.0::double end
            )) / list_sum(list_transform(t.weights, lambda w: exp(w)))
        )
    )[1]
end;

-- Two-sided p-value of the exact McNemar test: gained tasks pass under the second variant only,
-- lost ones under the first only. 1 where no task changed.
-- example: mcnemar_p(6, 1) is 0.1250
create or replace macro mcnemar_p(gained, lost) as case
    when gained is null or lost is null or least(gained, lost) < 0 then null
    else least(1.0::double, 2 * list_sum(list_transform(
        range(
            greatest(
                0,
                least(gained, lost)::bigint - (100 + 20 * sqrt((gained + lost)::double))::bigint
            ),
            least(gained, lost)::bigint + 1
        ),
        lambda i: exp(
            lgamma((gained + lost)::double + 1) - lgamma(i::double + 1)
            - lgamma((gained + lost - i)::double + 1) - (gained + lost) * ln(2::double)
        )
    )))
end;

-- The JSON pointer of a key of an object, whatever characters it has.
-- example: json_pointer('a/b') is /a~1b
create or replace macro json_pointer(key) as (
    '/' || replace(replace(key, '~', '~0'), '/', '~1')
);
