-- Checkpoints, archives, approvals, recoveries, blobs, commits, audit. Only adds: workers that know 0001 go on writing.
-- `raw` columns as in 0001: null unless Postgres could not hold a value exactly.

alter table {schema}.migrations add column if not exists breaking boolean not null default false;

alter table {schema}.sessions
  add column parent text,                   -- the session that this one was forked from
  add column forked_seq bigint,             -- ... after which of its events
  add column model text,                    -- of the newest model call that completed
  add column provider text,
  add column usd numeric,                   -- of all calls whose price is known; null: none is
  add column checkpoint integer not null default 0,   -- version of the newest checkpoint
  add column waiting integer not null default 0,      -- calls that wait for somebody
  add column committed_seq bigint,          -- up to which event `commits` has rows
  add column origin_seq bigint not null default 0,    -- what lies up to there is not in `events`: it could be had nowhere
  add column pruned_at timestamptz,
  add column erased_at timestamptz;

create index sessions_by_update on {schema}.sessions (updated_at desc, session_id desc);
create index sessions_by_parent on {schema}.sessions (parent) where parent is not null;

alter table {schema}.messages
  add column call_ids text[],               -- of the tool_use or tool_result blocks
  add column blobs jsonb;                   -- values that lie in `blobs`: [{"block": index or null, "sha256", "bytes"}]

alter table {schema}.tool_calls
  add column progress jsonb,                -- the last that an attempt said of how far it is
  add column waiting_until timestamptz,
  add column approval jsonb,                -- {digest, reason, requestedAt, expiresAt, onExpiry, decision, ...}
  add column result_blob text,              -- sha256 of the result in `blobs`
  add column resolved_by text,              -- verify, or person
  add column note text,
  add column milestones text[],
  add column raw_progress text;             -- of progress

create index tool_calls_by_time on {schema}.tool_calls (issued_at desc);
create index tool_calls_ended_badly on {schema}.tool_calls (status, issued_at desc)
  where status in ('awaiting_approval', 'awaiting_answer', 'failed', 'denied', 'skipped', 'replayed');

alter table {schema}.token_usage
  add column provider text,
  add column usd numeric,                   -- null where no price is known
  add column price_date date;               -- since when that price holds

-- `token_usage` added up, by the days (in UTC) of a session and by session: sums over many sessions read these rows.
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
  primary key (session_id)
) with (fillfactor = 70);                   -- as of `sessions`

create index usage_by_session_by_usd on {schema}.usage_by_session (usd desc, session_id);

-- By triggers, so that the sums are right whoever writes: an older worker, a fork, a prune, a person who corrects a price.
create function {schema}.add_usage() returns trigger language plpgsql as $body$
begin
  insert into {schema}.usage_by_day as stored
  select session_id, (at at time zone 'UTC')::date, agent, model, count(*), count(usd), coalesce(sum(usd), 0),
    sum(input_tokens), sum(output_tokens), sum(cache_creation_input_tokens), sum(cache_read_input_tokens)
  from added group by 1, 2, 3, 4
  on conflict (session_id, day, agent, model) do update set
    calls = stored.calls + excluded.calls,
    priced = stored.priced + excluded.priced,
    usd = stored.usd + excluded.usd,
    input_tokens = stored.input_tokens + excluded.input_tokens,
    output_tokens = stored.output_tokens + excluded.output_tokens,
    cache_creation_input_tokens = stored.cache_creation_input_tokens + excluded.cache_creation_input_tokens,
    cache_read_input_tokens = stored.cache_read_input_tokens + excluded.cache_read_input_tokens;
  insert into {schema}.usage_by_session as stored
  select session_id, count(*), count(usd), coalesce(sum(usd), 0),
    sum(input_tokens), sum(output_tokens), sum(cache_creation_input_tokens), sum(cache_read_input_tokens)
  from added group by 1
  on conflict (session_id) do update set
    calls = stored.calls + excluded.calls,
    priced = stored.priced + excluded.priced,
    usd = stored.usd + excluded.usd,
    input_tokens = stored.input_tokens + excluded.input_tokens,
    output_tokens = stored.output_tokens + excluded.output_tokens,
    cache_creation_input_tokens = stored.cache_creation_input_tokens + excluded.cache_creation_input_tokens,
    cache_read_input_tokens = stored.cache_read_input_tokens + excluded.cache_read_input_tokens;
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
    cache_read_input_tokens = stored.cache_read_input_tokens - gone.cache_read_input_tokens
  from (
    select session_id, (at at time zone 'UTC')::date as day, agent, model, count(*) as calls, count(usd) as priced, coalesce(sum(usd), 0) as usd,
      sum(input_tokens) as input_tokens, sum(output_tokens) as output_tokens,
      sum(cache_creation_input_tokens) as cache_creation_input_tokens, sum(cache_read_input_tokens) as cache_read_input_tokens
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
    cache_read_input_tokens = stored.cache_read_input_tokens - gone.cache_read_input_tokens
  from (
    select session_id, count(*) as calls, count(usd) as priced, coalesce(sum(usd), 0) as usd,
      sum(input_tokens) as input_tokens, sum(output_tokens) as output_tokens,
      sum(cache_creation_input_tokens) as cache_creation_input_tokens, sum(cache_read_input_tokens) as cache_read_input_tokens
    from removed group by 1
  ) gone
  where stored.session_id = gone.session_id;
  delete from {schema}.usage_by_day where calls = 0 and session_id in (select session_id from removed);
  delete from {schema}.usage_by_session where calls = 0 and session_id in (select session_id from removed);
  return null;
end $body$;

-- In the order of their names: a change takes before it adds.
create trigger added after insert on {schema}.token_usage
  referencing new table as added for each statement execute function {schema}.add_usage();
create trigger removed after delete on {schema}.token_usage
  referencing old table as removed for each statement execute function {schema}.take_usage();
create trigger changed_1 after update on {schema}.token_usage
  referencing old table as removed for each statement execute function {schema}.take_usage();
create trigger changed_2 after update on {schema}.token_usage
  referencing new table as added for each statement execute function {schema}.add_usage();

insert into {schema}.usage_by_day
select session_id, (at at time zone 'UTC')::date, agent, model, count(*), count(usd), coalesce(sum(usd), 0),
  sum(input_tokens), sum(output_tokens), sum(cache_creation_input_tokens), sum(cache_read_input_tokens)
from {schema}.token_usage group by 1, 2, 3, 4;

insert into {schema}.usage_by_session
select session_id, count(*), count(usd), coalesce(sum(usd), 0),
  sum(input_tokens), sum(output_tokens), sum(cache_creation_input_tokens), sum(cache_read_input_tokens)
from {schema}.token_usage group by 1;

-- A point to go back to: the folded state at its event, without the ids of the messages, so that storage grows linearly.
create table {schema}.checkpoints (
  session_id text not null,
  version integer not null,
  agent text not null,
  run integer,
  turn integer,
  seq bigint not null,                      -- of the checkpoint_made event
  up_to_seq bigint not null,                -- the state is that after this event
  last_message_id text,
  reason text not null,
  by text,
  state text not null,                      -- JSON text
  state_version integer not null,
  created_at timestamptz not null,
  archived_seq bigint,                      -- the event that went back to before it
  raw text,                                 -- of last_message_id, reason, by
  primary key (session_id, version)
);

-- What the transcript has left behind, and what was taken out of `messages` to be kept elsewhere.
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
  position bigint,
  ordinal integer not null default 0,
  at timestamptz not null,
  call_ids text[],
  blobs jsonb,
  raw text,
  archived_seq bigint,                      -- the event that took it out of the transcript
  archived_at timestamptz not null default now(),
  why text not null,                        -- rolled_back, restarted, begun_afresh, forked, pruned
  primary key (session_id, epoch, seq)
);

create index archived_messages_by_id on {schema}.archived_messages (session_id, message_id);
create index archived_messages_by_time on {schema}.archived_messages (archived_at);

-- Values too large for history, each once a session.
create table {schema}.blobs (
  session_id text not null,
  sha256 text not null,
  bytes bigint not null,
  content text not null,                    -- JSON text
  created_at timestamptz not null default now(),
  primary key (session_id, sha256)
);

-- One row a flush. Who reads only what lies before every open transaction never misses one that commits late.
create table {schema}.commits (
  txid xid8 not null default pg_current_xact_id(),
  session_id text not null,
  first_seq bigint not null,
  last_seq bigint not null,
  at timestamptz not null default now(),
  primary key (txid, session_id, first_seq)
);

-- What an older worker takes out of the transcript stays in `messages`, marked; readers look for both.
with moved as (delete from {schema}.messages where archived_seq is not null returning *)
insert into {schema}.archived_messages
  (session_id, epoch, seq, message_id, agent, run, turn, role, kind, content, metadata, position, ordinal, at, raw, archived_seq, why)
select moved.session_id, events.epoch, moved.seq, moved.message_id, moved.agent, moved.run, moved.turn, moved.role, moved.kind, moved.content,
  moved.metadata, moved.position, moved.ordinal, moved.at, moved.raw, moved.archived_seq, 'restarted'
from moved join {schema}.events using (session_id, seq);

insert into {schema}.commits (session_id, first_seq, last_seq) select session_id, 1, flushed_seq from {schema}.sessions where flushed_seq > 0;
update {schema}.sessions set committed_seq = flushed_seq;

create table {schema}.audit (
  id bigint generated always as identity primary key,
  at timestamptz not null default now(),
  action text not null,                     -- erase, prune, rebuild, ...
  session_id text,
  by text,
  details jsonb
);

create index audit_by_session on {schema}.audit (session_id, at);

-- What people were asked to agree to, and what they said.
create table {schema}.approvals (
  session_id text not null,
  call_id text not null,
  seq bigint not null,                      -- of the approval_requested event
  agent text not null,
  tool text not null,
  run integer not null,
  turn integer not null,
  digest text not null,                     -- of the arguments that are asked about
  reason text,
  status text not null,                     -- requested, approved, denied, expired, left_behind
  requested_at timestamptz not null,
  expires_at timestamptz,
  decided_at timestamptz,
  decided_by text,
  note text,
  raw text,                                 -- of tool, reason
  raw_decision text,                        -- of decided_by, note
  primary key (session_id, seq)
);

create index approvals_by_time on {schema}.approvals (requested_at desc);
create index approvals_open on {schema}.approvals (expires_at) where status = 'requested';

-- What put a session right again, and who did: recoveries, resumptions, ways back, and what people said of unknown calls.
create table {schema}.recoveries (
  session_id text not null,
  seq bigint not null,
  agent text not null,
  run integer,
  kind text not null,                       -- recovery_started, recovery_ended, rolled_back, session_resumed, session_started, tool_resolved
  strategy text,
  by text,
  note text,
  details jsonb,
  at timestamptz not null,
  raw text,                                 -- of by, note, details
  primary key (session_id, seq)
);

create index recoveries_by_time on {schema}.recoveries (at desc);
