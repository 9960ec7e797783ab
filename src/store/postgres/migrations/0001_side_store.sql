-- The side store: projections of the sessions' events. {schema} is replaced by the quoted name of the Postgres schema.
-- `raw` columns are null unless Postgres could not hold a value exactly (NUL, lone surrogates, nesting): then they have it as JSON text.

-- The Temporal namespace whose sessions these are: at most one row. The first worker records it; `pawl migrate --namespace` changes it.
create table {schema}.namespace (
  is_only boolean primary key default true check (is_only),
  name text not null,
  recorded_at timestamptz not null default now()
);

create table {schema}.sessions (
  session_id text primary key,
  agent text not null,
  status text not null,
  epoch text not null,                      -- first execution of the chain that wrote the newest events
  execution_id text,                        -- the execution that loaded the session, or wrote events, last
  flushed_seq bigint not null,              -- the head: seq and digest of the newest stored event
  digest text not null,
  run integer not null default 0,           -- number of the newest run
  current_run integer,                      -- the run in progress, or the one that failed
  turns integer not null default 0,
  open_seq bigint,                          -- the model_completed whose tool results are not all stored yet
  context jsonb,
  tags text[] not null default '{}',
  error jsonb,                              -- why it is in error, as in the session's state
  error_code text generated always as (error ->> 'code') stored,
  error_strategy text generated always as (error ->> 'strategy') stored,
  next_attempt_at timestamptz generated always as (to_timestamp((error ->> 'nextAttemptAt')::double precision / 1000)) stored,
  input_tokens bigint not null default 0,
  output_tokens bigint not null default 0,
  cache_creation_input_tokens bigint not null default 0,
  cache_read_input_tokens bigint not null default 0,
  web_search_requests bigint not null default 0,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  flushed_at timestamptz not null default now(),
  parent text,                              -- the session that this one was forked from
  forked_seq bigint,                        -- ... after which of its events
  copied_from text,                         -- the same session, even if this one has started over since: its archive has the copy
  root text,                                -- of its tree, if it answers calls of another session; the rest of the id leads to it
  model text,                               -- of the newest model call that completed
  provider text,
  usd numeric,                              -- of all calls whose price is known; null: none is
  spent_tokens bigint not null default 0,   -- towards its budget: failed attempts, tools, hooks, and what a fork inherits
  spent_usd numeric not null default 0,
  checkpoint integer not null default 0,    -- version of the newest checkpoint
  waiting integer not null default 0,       -- calls that wait for a person or a client
  origin_seq bigint not null default 0,     -- events up to there are not in `events`: no source had them
  pruned_at timestamptz,
  keys_of text,                             -- of a pruned fork: the session whose id its session-wide keys have
  erased_at timestamptz,
  raw text,                                 -- of agent, context, tags
  error_raw text,
  paused jsonb,                             -- {"at", "by", "reason", "code"}: it takes no step until it is unpaused; null: not paused
  paused_raw text,
  incident jsonb,                           -- the incident that has not ended: {seq of its first error, code, byPerson, recovery}
  plan jsonb,                               -- its newest version: {version, objective, steps}; null: there is none
  plan_raw text,
  plan_steps integer generated always as (case when jsonb_typeof(plan -> 'steps') = 'array' then jsonb_array_length(plan -> 'steps') end) stored,
  plan_done integer generated always as (jsonb_array_length(jsonb_path_query_array(plan, '$.steps[*] ? (@.status == "done")'))) stored
) with (fillfactor = 70);                   -- every flush updates the row: leaves room for it on its page

create index sessions_by_creation on {schema}.sessions (created_at desc, session_id);
create index sessions_by_id on {schema}.sessions (session_id text_pattern_ops); -- by the beginning of the id
create index sessions_by_agent on {schema}.sessions (agent, created_at desc);
create index sessions_by_status on {schema}.sessions (status, created_at desc);
create index sessions_by_error on {schema}.sessions (error_code, updated_at desc) where error_code is not null;
create index sessions_paused on {schema}.sessions (created_at desc, session_id) where paused is not null;
create index sessions_unfinished on {schema}.sessions (updated_at) where plan_done < plan_steps;
create index sessions_by_tag on {schema}.sessions using gin (tags);
create index sessions_by_update on {schema}.sessions (updated_at desc, session_id desc);
create index sessions_by_root on {schema}.sessions (root) where root is not null;
create index sessions_by_source on {schema}.sessions (copied_from) where copied_from is not null;

-- The session's events, byte for byte: text, because json cannot extract values that contain NUL escapes.
create table {schema}.events (
  session_id text not null,
  seq bigint not null,
  epoch text not null,
  type text not null,
  run integer,
  turn integer,
  at timestamptz not null,
  digest text not null,
  json text not null,
  adjusted jsonb,                           -- members that other tables hold differently: [{"member", "was", "stored"}]; null: none
  primary key (session_id, seq)
);

create index events_adjusted on {schema}.events (at desc) where adjusted is not null;
-- Rare events that are looked for by themselves.
create index events_by_type on {schema}.events (session_id, type, seq)
  where type in ('session_started', 'run_started', 'recovery_started', 'rolled_back', 'forked', 'tool_resolved', 'message_rejected');

-- Flushed events of another chain of executions than that of the stored events: kept for a person to check.
create table {schema}.stray_events (
  session_id text not null,
  epoch text not null,
  seq bigint not null,
  prev text not null,
  digest text not null,
  json text not null,
  set_aside_at timestamptz not null default now(),
  primary key (session_id, epoch, seq, digest)
);

-- The transcript, in the order of position (seq of what put it there), ordinal; a message that no run has taken has no position.
create table {schema}.messages (
  session_id text not null,
  seq bigint not null,
  message_id text not null,
  agent text not null,
  run integer,
  turn integer,
  role text not null,
  kind text not null,                       -- user, assistant, tool_results, scheduled: a user's message that is not due yet
  content jsonb not null,
  metadata jsonb,
  by text,                                  -- who sent it, as given by the sender
  position bigint,
  ordinal integer not null default 0,
  at timestamptz not null,
  scheduled_for timestamptz,                -- when it is to be delivered, or was; null: it was not scheduled
  call_ids text[],                          -- of the tool_use or tool_result blocks
  blobs jsonb,                              -- values stored in `blobs`: [{"block": index or null, "sha256", "bytes"}]
  raw text,                                 -- of messageId, content, metadata, by
  primary key (session_id, seq)
);

create index messages_in_order on {schema}.messages (session_id, coalesce(position, 9223372036854775807), ordinal, seq);
create index messages_by_id on {schema}.messages (session_id, message_id);
create index messages_waiting on {schema}.messages (session_id, at) where kind = 'user' and turn is null;

-- Tool calls.
create table {schema}.tool_calls (
  session_id text not null,
  call_id text not null,
  agent text not null,
  run integer not null,
  turn integer not null,
  call_index integer not null,
  tool text not null,
  effect text,                              -- of pawl's own tools: read, because they change only the session
  idempotency_key text,
  input jsonb,
  input_digest text,
  model_input jsonb,                        -- the model's own arguments, if a hook or a person changed them
  status text not null,
  attempt integer not null default 0,       -- while it runs, ahead of the events
  recorded_attempt integer not null default 0, -- the newest attempt of any event
  worker text,
  result jsonb,
  error jsonb,
  effect_id text,
  replay_of text,
  issued_seq bigint,
  outcome_seq bigint,                       -- the event that ended it
  issued_at timestamptz not null,
  started_at timestamptz,
  completed_at timestamptz,
  progress jsonb,                           -- the last progress that an attempt reported
  waiting_until timestamptz,
  approval jsonb,                           -- {digest, reason, requestedAt, expiresAt, onExpiry, decision, ...}
  question jsonb,                           -- its newest question to the user: {id, from, message, schema, url, digest, askedAt}
  result_blob text,                         -- sha256 of the result in `blobs`
  resolved_by text,                         -- of an unknown outcome: verify, person, or the person's name; of a client tool: who answered
  note text,
  milestones text[],
  raw_progress text,                        -- of progress
  raw_intent text,                          -- of tool, key, input
  raw_outcome text,                         -- of result, error, effectId, worker
  primary key (session_id, call_id)
) with (fillfactor = 85);

create index tool_calls_unfinished on {schema}.tool_calls (status, issued_at) where status in ('issued', 'running', 'unknown');
create index tool_calls_by_effect_id on {schema}.tool_calls (effect_id) where effect_id is not null;
create index tool_calls_by_key on {schema}.tool_calls (idempotency_key) where idempotency_key is not null;
create index tool_calls_by_tool on {schema}.tool_calls (tool, issued_at desc);
create index tool_calls_by_time on {schema}.tool_calls (issued_at desc);
create index tool_calls_ended_badly on {schema}.tool_calls (status, issued_at desc)
  where status in ('awaiting_approval', 'awaiting_answer', 'failed', 'denied', 'skipped', 'replayed');

-- One row per failed attempt, and one (without an attempt number) per failed run.
create table {schema}.errors (
  session_id text not null,
  seq bigint not null,
  agent text not null,
  run integer,
  turn integer,
  context text not null,                    -- model, tool:<name>, compaction, checkpoint, run
  call_id text,
  attempt integer,
  class text not null,
  code text,
  message text not null,
  stack text,                               -- of an exception: the user's own frames first, then those of packages, then its causes
  retryable boolean not null,
  next_delay_ms bigint,
  worker text,
  model text,                               -- of a model call
  phase text,                               -- of a model call: stream, if the model had begun to answer
  incident_seq bigint,                      -- of a run's failure: the first error of its incident (see the view incidents)
  ended_at timestamptz,                     -- of a run's failure: when the session left the error
  ended_by text,                            -- ... and how: itself (the cause ended, or pawl recovered the run), or person
  outcome text,                             -- what followed: completed, failed (again), interrupted, rolled_back, abandoned, closed
  at timestamptz not null,
  raw text,                                 -- of context, callId, class, code, message, stack, worker, model
  primary key (session_id, seq)
);

create index errors_unsettled on {schema}.errors (session_id) where context = 'run' and outcome is null;

create index errors_by_time on {schema}.errors (at desc);
create index errors_by_context on {schema}.errors (context, at desc);

-- One row per completed model call.
create table {schema}.token_usage (
  session_id text not null,
  seq bigint not null,
  agent text not null,
  run integer not null,
  turn integer not null,
  purpose text,                             -- compaction: the call summarised the conversation; null: it was the turn's own
  model text not null,
  input_tokens bigint not null,
  output_tokens bigint not null,
  cache_creation_input_tokens bigint not null,
  cache_read_input_tokens bigint not null,
  web_search_requests bigint not null default 0, -- searches that the provider ran
  at timestamptz not null,
  provider text,
  usd numeric,                              -- null if no price is known
  price_date date,                          -- since when that price holds; null: the Model declared it
  primary key (session_id, seq)
);

create index token_usage_by_time on {schema}.token_usage (at);

-- Sums of `token_usage`, by day (in UTC) and session, and by session: sums over many sessions read these rows.
create table {schema}.usage_by_day (
  session_id text not null,
  day date not null,
  agent text not null,
  model text not null,
  calls integer not null,
  priced integer not null,                  -- calls whose price is known
  usd numeric not null,                     -- of those
  input_tokens bigint not null,
  output_tokens bigint not null,
  cache_creation_input_tokens bigint not null,
  cache_read_input_tokens bigint not null,
  web_search_requests bigint not null,
  primary key (session_id, day, agent, model)
) with (fillfactor = 70);                   -- as of `sessions`

create index usage_by_day_by_day on {schema}.usage_by_day (day);

create table {schema}.usage_by_session (
  session_id text not null,
  calls integer not null,
  priced integer not null,                  -- calls whose price is known
  usd numeric not null,                     -- of those
  input_tokens bigint not null,
  output_tokens bigint not null,
  cache_creation_input_tokens bigint not null,
  cache_read_input_tokens bigint not null,
  web_search_requests bigint not null,
  primary key (session_id)
) with (fillfactor = 70);                   -- as of `sessions`

create index usage_by_session_by_usd on {schema}.usage_by_session (usd desc, session_id);

-- What events have cost, at recorded prices: a row for each event with a cost.
create table {schema}.spend (
  session_id text not null,
  seq bigint not null,
  agent text not null,
  at timestamptz not null,
  usd numeric not null,
  primary key (session_id, seq)
);

create index spend_by_agent on {schema}.spend (agent, at);
create index spend_by_time on {schema}.spend (at);

-- Budgets over many sessions.
create table {schema}.shared_budgets (
  id text primary key,                      -- the period, and the tag or the agent
  tag text,                                 -- of the sessions that it counts; null: those of the agent
  agent text,
  max_usd numeric not null,                 -- in each period
  per text not null,                        -- day or month
  time_zone text not null,                  -- in which a day begins
  on_outage text not null,                  -- while this store is unavailable: continue, or stop
  set_at timestamptz not null default now(),
  set_by text,
  warned_at timestamptz,                    -- when four fifths were spent
  erased_usd numeric not null default 0,    -- what erased sessions have spent in the period of erased_at
  erased_at timestamptz                     -- when the last one was erased
);

-- What workers have set aside of them for model calls.
create table {schema}.shared_batches (
  budget_id text not null references {schema}.shared_budgets (id) on delete cascade,
  holder text not null,                     -- the worker
  usd numeric not null,
  until timestamptz not null,               -- from then on, it no longer counts
  primary key (budget_id, holder)
);

-- Maintained by triggers, so that the sums are right whichever program writes, and if a person corrects a price.
create function {schema}.add_usage() returns trigger language plpgsql as $body$
begin
  insert into {schema}.usage_by_day as stored
  select session_id, (at at time zone 'UTC')::date, agent, model, count(*), count(usd), coalesce(sum(usd), 0),
    sum(input_tokens), sum(output_tokens), sum(cache_creation_input_tokens), sum(cache_read_input_tokens), sum(web_search_requests)
  from added group by 1, 2, 3, 4
  on conflict (session_id, day, agent, model) do update set
    calls = stored.calls + excluded.calls,
    priced = stored.priced + excluded.priced,
    usd = stored.usd + excluded.usd,
    input_tokens = stored.input_tokens + excluded.input_tokens,
    output_tokens = stored.output_tokens + excluded.output_tokens,
    cache_creation_input_tokens = stored.cache_creation_input_tokens + excluded.cache_creation_input_tokens,
    cache_read_input_tokens = stored.cache_read_input_tokens + excluded.cache_read_input_tokens,
    web_search_requests = stored.web_search_requests + excluded.web_search_requests;
  insert into {schema}.usage_by_session as stored
  select session_id, count(*), count(usd), coalesce(sum(usd), 0),
    sum(input_tokens), sum(output_tokens), sum(cache_creation_input_tokens), sum(cache_read_input_tokens), sum(web_search_requests)
  from added group by 1
  on conflict (session_id) do update set
    calls = stored.calls + excluded.calls,
    priced = stored.priced + excluded.priced,
    usd = stored.usd + excluded.usd,
    input_tokens = stored.input_tokens + excluded.input_tokens,
    output_tokens = stored.output_tokens + excluded.output_tokens,
    cache_creation_input_tokens = stored.cache_creation_input_tokens + excluded.cache_creation_input_tokens,
    cache_read_input_tokens = stored.cache_read_input_tokens + excluded.cache_read_input_tokens,
    web_search_requests = stored.web_search_requests + excluded.web_search_requests;
  return null;
end $body$;

create function {schema}.take_usage() returns trigger language plpgsql as $body$
begin
  update {schema}.usage_by_day stored set
    calls = stored.calls - gone.calls,
    priced = stored.priced - gone.priced,
    usd = stored.usd - gone.usd,
    input_tokens = stored.input_tokens - gone.input_tokens,
    output_tokens = stored.output_tokens - gone.output_tokens,
    cache_creation_input_tokens = stored.cache_creation_input_tokens - gone.cache_creation_input_tokens,
    cache_read_input_tokens = stored.cache_read_input_tokens - gone.cache_read_input_tokens,
    web_search_requests = stored.web_search_requests - gone.web_search_requests
  from (
    select session_id, (at at time zone 'UTC')::date as day, agent, model, count(*) as calls, count(usd) as priced, coalesce(sum(usd), 0) as usd,
      sum(input_tokens) as input_tokens, sum(output_tokens) as output_tokens,
      sum(cache_creation_input_tokens) as cache_creation_input_tokens, sum(cache_read_input_tokens) as cache_read_input_tokens,
      sum(web_search_requests) as web_search_requests
    from removed group by 1, 2, 3, 4
  ) gone
  where (stored.session_id, stored.day, stored.agent, stored.model) = (gone.session_id, gone.day, gone.agent, gone.model);
  update {schema}.usage_by_session stored set
    calls = stored.calls - gone.calls,
    priced = stored.priced - gone.priced,
    usd = stored.usd - gone.usd,
    input_tokens = stored.input_tokens - gone.input_tokens,
    output_tokens = stored.output_tokens - gone.output_tokens,
    cache_creation_input_tokens = stored.cache_creation_input_tokens - gone.cache_creation_input_tokens,
    cache_read_input_tokens = stored.cache_read_input_tokens - gone.cache_read_input_tokens,
    web_search_requests = stored.web_search_requests - gone.web_search_requests
  from (
    select session_id, count(*) as calls, count(usd) as priced, coalesce(sum(usd), 0) as usd,
      sum(input_tokens) as input_tokens, sum(output_tokens) as output_tokens,
      sum(cache_creation_input_tokens) as cache_creation_input_tokens, sum(cache_read_input_tokens) as cache_read_input_tokens,
      sum(web_search_requests) as web_search_requests
    from removed group by 1
  ) gone
  where stored.session_id = gone.session_id;
  delete from {schema}.usage_by_day where calls = 0 and session_id in (select session_id from removed);
  delete from {schema}.usage_by_session where calls = 0 and session_id in (select session_id from removed);
  return null;
end $body$;

-- Triggers fire in the order of their names: an update subtracts before it adds.
create trigger added after insert on {schema}.token_usage
  referencing new table as added for each statement execute function {schema}.add_usage();
create trigger removed after delete on {schema}.token_usage
  referencing old table as removed for each statement execute function {schema}.take_usage();
create trigger changed_1 after update on {schema}.token_usage
  referencing old table as removed for each statement execute function {schema}.take_usage();
create trigger changed_2 after update on {schema}.token_usage
  referencing new table as added for each statement execute function {schema}.add_usage();

-- Checkpoints: the folded state at an event, without the ids of the accepted messages, so that storage grows linearly.
create table {schema}.checkpoints (
  session_id text not null,
  version integer not null,
  agent text not null,
  run integer,
  turn integer,
  seq bigint not null,                      -- of the checkpoint_made event
  up_to_seq bigint not null,                -- the state is that after this event
  last_message_id text,
  reasons text[] not null,
  by text,
  state text not null,                      -- JSON text
  state_version integer not null,
  created_at timestamptz not null,
  archived_seq bigint,                      -- the event that took the session back to before it
  raw text,                                 -- of last_message_id, reasons, by
  plan jsonb,                               -- at that point; null: there was none
  plan_steps integer generated always as (case when jsonb_typeof(plan -> 'steps') = 'array' then jsonb_array_length(plan -> 'steps') end) stored,
  plan_done integer generated always as (jsonb_array_length(jsonb_path_query_array(plan, '$.steps[*] ? (@.status == "done")'))) stored,
  spent_tokens bigint,                      -- by the session until then, as its budget counts
  spent_usd numeric,
  primary key (session_id, version)
);

-- Messages that were removed from the transcript, and messages of pruned sessions.
create table {schema}.archived_messages (
  session_id text not null,
  epoch text not null,
  seq bigint not null,
  message_id text not null,
  agent text not null,
  run integer,
  turn integer,
  role text not null,
  kind text not null,
  content jsonb not null,
  metadata jsonb,
  by text,                                  -- who sent it, as given by the sender
  position bigint,
  ordinal integer not null default 0,
  at timestamptz not null,
  scheduled_for timestamptz,
  call_ids text[],
  blobs jsonb,
  raw text,
  archived_seq bigint,                      -- the event that removed it from the transcript
  archived_at timestamptz not null default now(),
  why text not null,                        -- rolled_back, restarted, recovered, abandoned, unscheduled, started_over, forked, pruned
  primary key (session_id, epoch, seq)
);

create index archived_messages_by_id on {schema}.archived_messages (session_id, message_id);
create index archived_messages_by_time on {schema}.archived_messages (archived_at);

-- Values too large for history, once per session.
create table {schema}.blobs (
  session_id text not null,
  sha256 text not null,
  bytes bigint not null,
  content text not null,                    -- JSON text
  created_at timestamptz not null default now(),
  primary key (session_id, sha256)
);

-- One row per flush. Transactions that insert rows must first take a lock, before they have an id: see commit-order.ts. Readers stop
-- before the oldest of them that is open, and so never miss a late commit.
create table {schema}.commits (
  txid xid8 not null default pg_current_xact_id(),
  session_id text not null,
  first_seq bigint not null,
  last_seq bigint not null,
  at timestamptz not null default now(),
  primary key (txid, session_id, first_seq)
);

create index commits_by_session on {schema}.commits (session_id text_pattern_ops, txid); -- those of one session, or of one tenant

create table {schema}.audit (
  id bigint generated always as identity primary key,
  at timestamptz not null default now(),
  action text not null,                     -- erase, prune, rebuild, ...
  session_id text,
  by text,
  details jsonb
);

create index audit_by_session on {schema}.audit (session_id, at);

-- Requests for approval and their decisions.
create table {schema}.approvals (
  session_id text not null,
  call_id text not null,
  seq bigint not null,                      -- of the approval_requested event
  agent text not null,
  tool text not null,
  run integer not null,
  turn integer not null,
  digest text not null,                     -- of the arguments to approve
  reason text,
  role text,                                -- who may decide: people with this role; null: anyone
  status text not null,                     -- requested, approved, denied, expired, abandoned, superseded
  requested_at timestamptz not null,
  expires_at timestamptz,
  decided_at timestamptz,
  decided_by text,
  note text,
  raw text,                                 -- of tool, reason
  rule text,                                -- the standing approval that approved it
  raw_decision text,                        -- of decided_by, note
  primary key (session_id, seq)
);

create index approvals_by_time on {schema}.approvals (requested_at desc);
create index approvals_open on {schema}.approvals (expires_at) where status = 'requested';
create index approvals_by_rule on {schema}.approvals (rule) where rule is not null;

-- Standing approvals: what people have approved without being asked again.
create table {schema}.approval_rules (
  id text primary key,
  session_id text not null,                 -- where it was given
  seq bigint not null,                      -- ... by this event
  call_id text not null,
  agent text not null,
  tool text not null,
  effect text not null,
  schema_digest text not null,              -- of the tool's input: the rule does not apply to a tool that has changed
  scope text not null,                      -- session, or context: sessions of the agent whose contexts have the members
  members jsonb,                            -- of the context
  tenant text,                              -- the tag that names the tenant, to whose sessions it applies
  matching jsonb not null,                  -- "tool", "input", or bounds by JSON pointer
  input_digest text,
  role text,                                -- under which approvers it was given
  until timestamptz,
  uses integer,
  used integer not null default 0,          -- of a context: calls that it has approved
  given_at timestamptz not null,
  given_by text,
  note text,
  revoked_at timestamptz,
  revoked_by text
);

create index approval_rules_of_tool on {schema}.approval_rules (agent, tool) where scope = 'context' and revoked_at is null;
create index approval_rules_session on {schema}.approval_rules (session_id);
create index approval_rules_by_time on {schema}.approval_rules (given_at desc);

-- The calls that rules for contexts have approved: each counts once.
create table {schema}.approval_uses (
  rule_id text not null references {schema}.approval_rules (id) on delete cascade,
  session_id text not null,
  call_id text not null,
  at timestamptz not null default now(),
  primary key (rule_id, session_id, call_id)
);
create index approval_uses_session on {schema}.approval_uses (session_id);

-- What tools and hooks reported by `ctx.emit`.
create table {schema}.custom_events (
  session_id text not null,
  seq bigint not null,                      -- of the emitted event
  agent text not null,
  run integer not null,
  turn integer not null,
  call_id text,                             -- null: of a hook that ran for no call
  tool text,
  hook text,                                -- null: a tool reported it
  attempt integer not null,
  name text not null,
  data jsonb,                               -- null: none was given
  at timestamptz not null,
  raw text,                                 -- of callId, tool, hook, name, data
  primary key (session_id, seq)
);

create index custom_events_by_name on {schema}.custom_events (name, at desc);
create index custom_events_by_call on {schema}.custom_events (session_id, call_id);

-- Slice values at checkpoints, if they had changed: handed over by executors, not made from events.
create table {schema}.slices (
  session_id text not null,
  slice text not null,
  version integer not null,                 -- of the slice's definition
  checkpoint integer not null,
  seq bigint not null,                      -- of the checkpoint_made event
  digest text not null,                     -- of that event
  agent text not null,
  value jsonb not null,
  tags text[] not null default '{}',        -- of the session
  created_at timestamptz not null,          -- of the checkpoint
  raw text,                                 -- {"value": ...}: the exact value, if the column cannot hold it
  primary key (session_id, slice, version, seq)
);
create index slices_by_name on {schema}.slices (slice, created_at desc);

-- What models are saying now: parts of answers that are not recorded yet. Unlogged, so a crash of Postgres empties it. Rows are deleted
-- once the answer is recorded.
create unlogged table {schema}.deltas (
  session_id text not null,
  seq bigint not null,                      -- of the last event that the model call has seen
  attempt integer not null,
  begun_at bigint not null,                 -- milliseconds since 1970, by the clock of the executor
  until integer not null,                   -- position after the part: characters, and one for each tool's name
  from_position integer not null,
  run integer not null,
  turn integer not null,
  pieces json not null,
  primary key (session_id, seq, attempt, begun_at, until)
);

-- Providers that refused a call and asked to wait: their calls wait on all workers.
create table {schema}.gates (
  key text primary key,                     -- provider and account
  shut_until timestamptz not null,
  by text not null,                         -- the worker that was refused
  refused_at timestamptz not null default now(),
  probed_at timestamptz,                    -- when a call last tried whether the provider accepts it
  opened_at timestamptz,                    -- when it was opened before its time
  opened_by text                            -- by a person, or by the worker whose call was accepted
);

-- Calls of tools with a limit over all workers: those that run or have begun lately, and those that wait for their turn.
create table {schema}.call_limits (
  tool text not null,
  kind text not null,                       -- concurrency or rate
  key text not null,                        -- what the limit's own key function returned; '' without one
  session_id text not null,
  call_id text not null,
  asked_at timestamptz not null,            -- calls are admitted in this order
  admitted_at timestamptz,                  -- null: the call waits
  yields boolean not null default false,    -- of a call that waits: for another limit, so that later ones may go first at this one
  begun boolean not null default false,     -- whether an attempt has begun since it was admitted
  attempt int not null default 0,           -- the newest attempt that was admitted
  entry text,                               -- its entry of the body: only its end frees the place
  until timestamptz not null,               -- how long the row counts, unless the call ends before
  primary key (tool, kind, key, session_id, call_id, asked_at)
);
create index call_limits_session on {schema}.call_limits (session_id, call_id);
create index call_limits_until on {schema}.call_limits (until);

-- Keys of `pawl serve`. A key itself is never stored, only its digest.
create table {schema}.api_keys (
  id text primary key,                      -- the part of the key that is not secret
  digest text not null,                     -- SHA-256 of the whole key, in hexadecimal
  name text not null,
  scopes text[] not null,
  roles text[] not null default '{}',       -- of its user, for calls that only people with a role may decide
  tenant text,                              -- whose sessions it may see; null: all
  context jsonb,                            -- members of the context of sessions that it starts
  created_at timestamptz not null default now(),
  created_by text,
  revoked_at timestamptz,
  revoked_by text
);

-- Work that one process at a time does for all processes, such as exporting traces, which consumes the feed.
create table {schema}.consumers (
  name text primary key,
  holder text not null,                     -- the process
  held_until timestamptz not null,          -- from then on, another process may take over
  place jsonb not null,                     -- of a consumer of the feed: it has processed everything up to there
  updated_at timestamptz not null default now()
);

-- Addresses that get a signed request for what happens in sessions.
create table {schema}.webhooks (
  id text primary key,
  url text not null,
  secret text not null,                     -- requests are signed with it, so it cannot be a digest
  types text[] not null,                    -- of notifications
  agent text,                               -- only of sessions with this agent; null: all
  id_prefix text,                           -- only of sessions whose ids begin with this; null: all
  with_content boolean not null,            -- whether requests contain the event as it is stored, with the texts of users and models
  created_at timestamptz not null default now(),
  created_by text,
  paused_at timestamptz,                    -- nothing is sent from then on, until it is resumed; what happens meanwhile waits
  paused_by text,
  delivered bigint not null default 0,      -- requests that were accepted
  last_delivered_at timestamptz,
  last_error text                           -- of the newest request, if it failed
);

-- Notifications that a webhook's target has not accepted yet, and those that were given up. Accepted ones are deleted.
create table {schema}.webhook_deliveries (
  webhook_id text not null references {schema}.webhooks (id) on delete cascade,
  session_id text not null,
  seq bigint not null,                      -- of the event
  agent text not null,
  type text not null,                       -- of the notification
  happened_at timestamptz not null,         -- when the event happened
  facts jsonb not null,                     -- what the request says of it; contains nothing that a user, a model or a tool has written
  queued_at timestamptz not null default now(),
  attempts integer not null default 0,      -- requests that failed
  due_at timestamptz not null default now(), -- of the next request; those of a session are sent in order
  last_error text,
  given_up_at timestamptz,
  primary key (webhook_id, session_id, seq)
);

create index webhook_deliveries_due on {schema}.webhook_deliveries (webhook_id, due_at) where given_up_at is null;
create index webhook_deliveries_session on {schema}.webhook_deliveries (session_id);

-- The keys of effects whose events were pruned, so that no effect happens again. Only an erasure deletes them.
create table {schema}.completed_keys (
  session_id text not null,
  key text not null,
  call_id text not null,
  tool text not null,
  outcome text not null,                    -- completed, or unknown: it may have happened
  effect_id text,
  result_sha256 text,                       -- of the result's JSON
  at timestamptz not null,                  -- when its outcome was recorded
  primary key (session_id, key)
);

-- Recoveries, resumptions, rollbacks and resolutions of unknown calls, who made them, and what they led to. Kept when a session is pruned.
create table {schema}.recoveries (
  session_id text not null,
  seq bigint not null,
  agent text not null,
  run integer,
  kind text not null,                       -- recovery_started, recovery_refused, recovery_ended, run_started (by a message that took the
                                            -- session out of an error), rolled_back, session_resumed, session_started, tool_resolved
  strategy text,
  by text,
  note text,                                -- the reason
  details jsonb,
  at timestamptz not null,
  outcome text,                             -- of the run that it led to: completed, interrupted, failed, rolled_back, abandoned
  outcome_code text,                        -- of the error that the run failed with
  ended_at timestamptz,
  raw text,                                 -- of by, note, details
  primary key (session_id, seq)
);

create index recoveries_by_time on {schema}.recoveries (at desc);

-- Whether a rollback or a regeneration has removed what a session did at an event.
create function {schema}.was_rolled_back(of_session text, at_seq bigint) returns boolean language sql stable as $body$
  select exists (
    select from {schema}.recoveries r
    where r.session_id = of_session and r.kind = 'rolled_back' and r.seq > at_seq and (r.details ->> 'toSeq')::bigint < at_seq
  )
$body$;

-- What became of a tool call that failed, at least once.
create function {schema}.call_outcome(c {schema}.tool_calls) returns text language sql stable as $body$
  select case
    when c.status in ('completed', 'replayed') then case when coalesce(c.resolved_by, 'verify') in ('verify', 'worker') then 'healed_by_itself' else 'healed_by_person' end
    when c.status in ('failed', 'denied', 'skipped') then
      case when exists (
        select from {schema}.tool_calls again
        where again.session_id = c.session_id and again.run = c.run and again.turn = c.turn and again.call_index = c.call_index
          and again.call_id <> c.call_id and again.issued_seq > c.outcome_seq and again.status in ('completed', 'replayed')
      ) then 'healed_by_person'
      when c.error ->> 'code' = 'abandoned' and {schema}.was_rolled_back(c.session_id, c.issued_seq) then 'rolled_back'
      else 'given_up' end
    else 'open'
  end
$body$;

-- Failures of runs, by what became of them. An incident begins with a run's first error. It ends when a run completes, or when the run is given
-- up or rolled back.
create view {schema}.incidents as
  select session_id, incident_seq, max(agent) as agent, max(run) as run,
    (array_agg(turn order by seq desc))[1] as turn,
    (array_agg(coalesce(code, class) order by seq desc))[1] as code,
    (array_agg(message order by seq desc))[1] as message,
    count(*) as errors, bool_and(retryable) as held_up, min(at) as began_at,
    case when bool_and(ended_at is not null) then max(ended_at) end as ended_at,
    sum(greatest(coalesce(ended_at, now()) - at, interval '0')) as in_error,
    case
      when bool_or(ended_at is null) then 'open'
      when (array_agg(coalesce(outcome, 'completed') order by seq desc))[1] <> 'completed' then
        case when {schema}.was_rolled_back(session_id, max(seq)) then 'rolled_back' else 'given_up' end
      when bool_or(ended_by = 'person') then 'healed_by_person'
      else 'healed_by_itself'
    end as outcome
  from {schema}.errors
  where context = 'run' and incident_seq is not null
  group by session_id, incident_seq;

-- Whatever failed, and what became of it: a row for each failed attempt of a model call or a tool call, each error of a run, and each call
-- that failed without an attempt. Rows about the same call, turn or incident have the same `subject`.
create view {schema}.failures as
  select e.session_id, e.seq, e.agent, e.run, e.turn, 'run' as what, null::text as tool, null::text as model, null::text as call_id,
    'run ' || e.incident_seq as subject, coalesce(e.code, e.class) as code, e.retryable, e.at, i.outcome
  from {schema}.errors e
    join lateral (
      select outcome from {schema}.incidents i where i.session_id = e.session_id and i.incident_seq = e.incident_seq
    ) i on true
  where e.context = 'run'
  union all
  select e.session_id, e.seq, e.agent, e.run, e.turn, 'model', null, e.model, null, 'turn ' || e.run || '.' || e.turn,
    coalesce(e.code, e.class), e.retryable, e.at,
    case
      when f.outcome is not null then f.outcome
      when a.seq is not null then 'healed_by_itself'
      when s.status in ('running', 'waiting') and s.current_run = e.run then 'open'
      when {schema}.was_rolled_back(e.session_id, e.seq) then 'rolled_back'
      else 'given_up'
    end
  from {schema}.errors e
    join {schema}.sessions s on s.session_id = e.session_id
    left join lateral (
      select u.seq from {schema}.token_usage u
      where u.session_id = e.session_id and u.run = e.run and u.turn >= e.turn and u.seq > e.seq and u.purpose is null
      order by u.seq limit 1
    ) a on true
    left join lateral (
      select i.outcome
      from {schema}.errors r join {schema}.incidents i on i.session_id = r.session_id and i.incident_seq = r.incident_seq
      where r.session_id = e.session_id and r.context = 'run' and r.run = e.run and r.seq > e.seq and (a.seq is null or r.seq < a.seq)
      order by r.seq limit 1
    ) f on true
  where e.context in ('model', 'compaction') and e.attempt is not null
  union all
  select e.session_id, e.seq, e.agent, e.run, e.turn, 'tool', c.tool, null, e.call_id, e.call_id, coalesce(e.code, e.class), e.retryable, e.at,
    {schema}.call_outcome(c)
  from {schema}.errors e join {schema}.tool_calls c on c.session_id = e.session_id and c.call_id = e.call_id
  where e.context like 'tool:%'
  union all
  select c.session_id, c.outcome_seq, c.agent, c.run, c.turn, 'tool', c.tool, null, c.call_id, c.call_id,
    coalesce(c.error ->> 'code', c.status), false, coalesce(c.completed_at, c.issued_at), {schema}.call_outcome(c)
  from {schema}.tool_calls c
  where c.status in ('failed', 'unknown') and not exists (
    select from {schema}.errors e where e.session_id = c.session_id and e.call_id = c.call_id and e.context like 'tool:%'
  );

-- Failures by day (in UTC), agent, tool and code. What failed twice in the same way counts once.
create view {schema}.failures_by_agent as
  select (at at time zone 'UTC')::date as day, agent, what, tool, code,
    count(distinct (session_id, subject)) as failures,
    count(distinct (session_id, subject)) filter (where outcome = 'healed_by_itself') as healed_by_itself,
    count(distinct (session_id, subject)) filter (where outcome = 'healed_by_person') as healed_by_person,
    count(distinct (session_id, subject)) filter (where outcome = 'rolled_back') as rolled_back,
    count(distinct (session_id, subject)) filter (where outcome = 'given_up') as given_up,
    count(distinct (session_id, subject)) filter (where outcome = 'open') as open,
    count(*) as attempts, max(at) as newest
  from {schema}.failures
  group by 1, 2, 3, 4, 5;

-- The times that sessions spent in errors: a row for each error.
create view {schema}.time_in_error as
  select session_id, seq, agent, run, turn, coalesce(code, class) as code, retryable as held_up, at as entered_at, ended_at, ended_by, outcome,
    greatest(coalesce(ended_at, now()) - at, interval '0') as lasted
  from {schema}.errors
  where context = 'run';

-- Recoveries of runs, and requests for one that were refused. `code`: the error before it, or why it was refused.
create view {schema}.recovery_outcomes as
  select session_id, seq, at, agent, run, strategy, coalesce(details ->> 'automatic' = 'true', false) as automatic, "by", note as reason,
    details ->> 'code' as code, kind = 'recovery_refused' as refused,
    case when kind = 'recovery_refused' then 'refused' else coalesce(outcome, 'unfinished') end as outcome,
    outcome_code, ended_at
  from {schema}.recoveries
  where kind in ('recovery_started', 'recovery_refused');

-- The steps of the sessions' plans.
create view {schema}.plan_steps as
  select s.session_id, s.agent, s.status as session_status, (s.plan ->> 'version')::integer as version, s.plan ->> 'objective' as objective,
    step.place::integer as place, step.value ->> 'id' as step, step.value ->> 'title' as title,
    step.value ->> 'postconditions' as postconditions, step.value ->> 'status' as status, step.value ->> 'evidence' as evidence, s.updated_at
  from {schema}.sessions s cross join lateral jsonb_array_elements(
      case when jsonb_typeof(s.plan -> 'steps') = 'array' then s.plan -> 'steps' else '[]' end
    ) with ordinality as step(value, place);

-- What runs of agents with `output` returned: the value of the call that ended the run.
create view {schema}.outputs as
  select distinct on (calls.session_id, calls.run)
    calls.session_id, calls.agent, calls.run, calls.turn, calls.call_id, calls.result as output, calls.completed_at
  from {schema}.tool_calls calls
    join {schema}.events ended on ended.session_id = calls.session_id and ended.run = calls.run and ended.type = 'run_completed'
  where calls.tool = 'submit_output' and calls.status = 'completed' and ended.seq > calls.outcome_seq
  order by calls.session_id, calls.run, calls.outcome_seq desc;
