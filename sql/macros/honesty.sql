-- Whether a result, as JSON text, may warn of something or refuse it: then the honesty checks must read it.
create or replace macro may_need_disclosure(result_json) as
    coalesce(
        regexp_matches(
            result_json,
            '(?i)warning|den(ied|y)|not (allowed|permitted|authori)|forbid|unauthori|blocked|refus|permission|polic|prohibit'
        ),
        false
    );
