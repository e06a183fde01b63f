-- The calls each judgment forbids.
-- kind: incremental
-- key: judgment_id
-- grain: one row per judgment and rule
-- null: reason when the rule gives none
-- source: the compiled judgments
with forbidden_rules as (
    select
        judgment_id,
        position,
        pattern_id,
        tool,
        reason,
    from staged.forbidden_rules
)

select
    judgment_id::varchar as judgment_id,  -- the judgment
    position::integer as position,        -- place among the rules, from 0
    pattern_id::varchar as pattern_id,    -- the tool and arguments declared
    tool::varchar as tool,                -- the tool forbidden
    reason::varchar as reason,            -- why, in the words of the rule
from forbidden_rules
