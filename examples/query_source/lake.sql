-- One run a row: what the log calls things, named as run rows name them.
select
    ticket_kind as task,
    prompt_name as variant,
    attempt as repetition,
    tool_calls::json as calls,
    reply as final_answer,
    cents / 100 as cost_usd,
    agent_build,
from read_csv('logs/*.csv', types = {tool_calls: 'varchar', cents: 'double'})
