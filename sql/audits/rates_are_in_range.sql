-- A pass rate lies from 0 to 1 and within its interval.
-- guards: marts.variant_stats
-- mend: Materialise the mart again; when that does not help, its formula in sql/marts/variant_stats.sql is wrong.
with variant_stats as (
    select
        comparison,
        variant,
        pass_rate,
        pass_rate_low,
        pass_rate_high,
    from marts.variant_stats
)

select
    comparison,
    variant,
    pass_rate,
from variant_stats
where
    pass_rate is not null
    and (
        pass_rate < 0
        or pass_rate > 1
        or pass_rate_low > pass_rate + 1e-12
        or pass_rate_high < pass_rate - 1e-12
    )
