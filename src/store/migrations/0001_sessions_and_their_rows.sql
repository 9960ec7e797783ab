-- The side store: projections of the sessions' events. {schema} stands for the quoted schema name.
-- `raw` columns are null unless Postgres could not hold a value exactly (NUL, lone surrogates, nesting): then they have it as JSON text.

create table {schema}.sessions (
  session_id text primary key,
  agent text not null,
  status text not null,
  epoch text not null,                      -- first execution of the chain that wrote the newest events
  execution_id text,                        -- the execution that loaded the session, or wrote events, last
  flushed_seq bigint not null,              -- the head: seq and digest of the newest stored event
  digest text not null,
  run integer not null default 0,           -- number of the newest run
  current_run integer,                      -- the run that is going on, or the one that the session failed in
  turns integer not null default 0,
  open_seq bigint,                          -- the model_completed whose tool results are not all there yet
  context jsonb,
  tags text[] not null default '{}',
  error jsonb,
  input_tokens bigint not null default 0,
  output_tokens bigint not null default 0,
  cache_creation_input_tokens bigint not null default 0,
  cache_read_input_tokens bigint not null default 0,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  flushed_at timestamptz not null default now(),
  raw text,                                 -- of agent, context, tags
  error_raw text
) with (fillfactor = 70);                   -- the row is updated by every flush: room for it on its page

create index sessions_by_creation on {schema}.sessions (created_at desc, session_id);
create index sessions_by_agent on {schema}.sessions (agent, created_at desc);
create index sessions_by_status on {schema}.sessions (status, created_at desc);
create index sessions_by_tag on {schema}.sessions using gin (tags);

-- The session's events, byte for byte: text, because json refuses to take apart what has NUL escapes in it.
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
  adjusted jsonb,                           -- members that other tables hold otherwise: [{"member", "was", "stored"}]; null: none
  primary key (session_id, seq)
);

create index events_adjusted on {schema}.events (at desc) where adjusted is not null;

-- Flushed events of another chain of executions than the one that wrote the stored ones: kept for a person to judge.
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

-- The transcript, in the order of position (seq of what put it there), ordinal; what no run has taken has no position.
create table {schema}.messages (
  session_id text not null,
  seq bigint not null,
  message_id text not null,
  agent text not null,
  run integer,
  turn integer,
  role text not null,
  kind text not null,                       -- user, assistant, tool_results
  content jsonb not null,
  metadata jsonb,
  position bigint,
  ordinal integer not null default 0,
  at timestamptz not null,
  archived_seq bigint,                      -- the event that took it out of the transcript again
  raw text,                                 -- of messageId, content, metadata
  primary key (session_id, seq)
);

create index messages_by_id on {schema}.messages (session_id, message_id);

-- The ledger of tool calls.
create table {schema}.tool_calls (
  session_id text not null,
  call_id text not null,
  agent text not null,
  run integer not null,
  turn integer not null,
  call_index integer not null,
  tool text not null,
  effect text,
  idempotency_key text,
  input jsonb,
  input_digest text,
  status text not null,
  attempt integer not null default 0,
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
  raw_intent text,                          -- of tool, effect, key, input
  raw_outcome text,                         -- of result, error, effectId, worker
  primary key (session_id, call_id)
) with (fillfactor = 85);

create index tool_calls_unfinished on {schema}.tool_calls (status, issued_at) where status in ('issued', 'running', 'unknown');
create index tool_calls_by_effect_id on {schema}.tool_calls (effect_id) where effect_id is not null;
create index tool_calls_by_tool on {schema}.tool_calls (tool, issued_at desc);

-- One row a failed attempt, and one (without attempt) a failure of a whole run.
create table {schema}.errors (
  session_id text not null,
  seq bigint not null,
  agent text not null,
  run integer,
  turn integer,
  context text not null,                    -- model, tool:<name>, run
  call_id text,
  attempt integer,
  class text not null,
  code text,
  message text not null,
  retryable boolean not null,
  next_delay_ms bigint,
  worker text,
  at timestamptz not null,
  raw text,                                 -- of context, callId, class, code, message, worker
  primary key (session_id, seq)
);

create index errors_by_time on {schema}.errors (at desc);
create index errors_by_context on {schema}.errors (context, at desc);

-- One row a model call that completed.
create table {schema}.token_usage (
  session_id text not null,
  seq bigint not null,
  agent text not null,
  run integer not null,
  turn integer not null,
  model text not null,
  input_tokens bigint not null,
  output_tokens bigint not null,
  cache_creation_input_tokens bigint not null,
  cache_read_input_tokens bigint not null,
  at timestamptz not null,
  primary key (session_id, seq)
);

create index token_usage_by_time on {schema}.token_usage (at);
