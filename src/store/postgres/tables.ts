// The columns that the writer fills, by table; session_id and agent are added.

/** Column name to SQL type. */
export type Columns = Readonly<
  Record<string, 'text' | 'text[]' | 'bigint' | 'integer' | 'numeric' | 'boolean' | 'jsonb' | 'timestamptz' | 'date'>
>

/** A row for such columns: jsonb as JSON text, timestamps as ISO text. */
export type RowOf<C extends Columns> = { -readonly [K in keyof C]: (C[K] extends 'text[]' ? string[] : string | number | boolean) | null }

export const EVENTS = {
  seq: 'bigint',
  epoch: 'text',
  type: 'text',
  run: 'integer',
  turn: 'integer',
  at: 'timestamptz',
  digest: 'text',
  json: 'text',
  adjusted: 'jsonb',
} as const satisfies Columns

export const STRAY_EVENTS = { epoch: 'text', seq: 'bigint', prev: 'text', digest: 'text', json: 'text' } as const satisfies Columns

export const MESSAGES = {
  seq: 'bigint',
  message_id: 'text',
  run: 'integer',
  turn: 'integer',
  role: 'text',
  kind: 'text',
  content: 'jsonb',
  metadata: 'jsonb',
  by: 'text',
  position: 'bigint',
  ordinal: 'integer',
  at: 'timestamptz',
  scheduled_for: 'timestamptz',
  call_ids: 'text[]',
  blobs: 'jsonb',
  raw: 'text',
} as const satisfies Columns

/** Messages that were scheduled, and are delivered. */
export const DELIVERED = { message_id: 'text' } as const satisfies Columns

/** Changes of messages that a turn takes. */
export const TAKEN = {
  message_id: 'text',
  run: 'integer',
  turn: 'integer',
  position: 'bigint',
  ordinal: 'integer',
} as const satisfies Columns

export const TOOL_CALLS = {
  call_id: 'text',
  run: 'integer',
  turn: 'integer',
  call_index: 'integer',
  tool: 'text',
  effect: 'text',
  idempotency_key: 'text',
  input: 'jsonb',
  input_digest: 'text',
  model_input: 'jsonb',
  status: 'text',
  attempt: 'integer',
  recorded_attempt: 'integer',
  worker: 'text',
  result: 'jsonb',
  error: 'jsonb',
  effect_id: 'text',
  replay_of: 'text',
  issued_seq: 'bigint',
  outcome_seq: 'bigint',
  issued_at: 'timestamptz',
  started_at: 'timestamptz',
  completed_at: 'timestamptz',
  raw_intent: 'text',
  raw_outcome: 'text',
  progress: 'jsonb',
  raw_progress: 'text',
  waiting_until: 'timestamptz',
  approval: 'jsonb',
  question: 'jsonb',
  result_blob: 'text',
  resolved_by: 'text',
  note: 'text',
  milestones: 'text[]',
} as const satisfies Columns

export const ERRORS = {
  seq: 'bigint',
  run: 'integer',
  turn: 'integer',
  context: 'text',
  call_id: 'text',
  attempt: 'integer',
  class: 'text',
  code: 'text',
  message: 'text',
  stack: 'text',
  retryable: 'boolean',
  next_delay_ms: 'bigint',
  worker: 'text',
  model: 'text',
  phase: 'text',
  incident_seq: 'bigint',
  ended_at: 'timestamptz',
  ended_by: 'text',
  outcome: 'text',
  at: 'timestamptz',
  raw: 'text',
} as const satisfies Columns

export const TOKEN_USAGE = {
  seq: 'bigint',
  run: 'integer',
  turn: 'integer',
  purpose: 'text',
  model: 'text',
  provider: 'text',
  input_tokens: 'bigint',
  output_tokens: 'bigint',
  cache_creation_input_tokens: 'bigint',
  cache_read_input_tokens: 'bigint',
  web_search_requests: 'bigint',
  usd: 'numeric',
  price_date: 'date',
  at: 'timestamptz',
} as const satisfies Columns

export const SPEND = { seq: 'bigint', at: 'timestamptz', usd: 'numeric' } as const satisfies Columns

export const CHECKPOINTS = {
  version: 'integer',
  run: 'integer',
  turn: 'integer',
  seq: 'bigint',
  up_to_seq: 'bigint',
  last_message_id: 'text',
  reasons: 'text[]',
  by: 'text',
  state: 'text',
  state_version: 'integer',
  created_at: 'timestamptz',
  raw: 'text',
  plan: 'jsonb',
  spent_tokens: 'bigint',
  spent_usd: 'numeric',
} as const satisfies Columns

export const APPROVALS = {
  call_id: 'text',
  seq: 'bigint',
  tool: 'text',
  run: 'integer',
  turn: 'integer',
  digest: 'text',
  reason: 'text',
  role: 'text',
  status: 'text',
  requested_at: 'timestamptz',
  expires_at: 'timestamptz',
  decided_at: 'timestamptz',
  decided_by: 'text',
  note: 'text',
  rule: 'text',
  raw: 'text',
  raw_decision: 'text',
} as const satisfies Columns

export const APPROVAL_RULES = {
  id: 'text',
  seq: 'bigint',
  call_id: 'text',
  tool: 'text',
  effect: 'text',
  schema_digest: 'text',
  scope: 'text',
  members: 'jsonb',
  tenant: 'text',
  matching: 'jsonb',
  input_digest: 'text',
  role: 'text',
  until: 'timestamptz',
  uses: 'integer',
  given_at: 'timestamptz',
  given_by: 'text',
  note: 'text',
  revoked_at: 'timestamptz',
  revoked_by: 'text',
} as const satisfies Columns

export const CUSTOM_EVENTS = {
  seq: 'bigint',
  run: 'integer',
  turn: 'integer',
  call_id: 'text',
  tool: 'text',
  hook: 'text',
  attempt: 'integer',
  name: 'text',
  data: 'jsonb',
  at: 'timestamptz',
  raw: 'text',
} as const satisfies Columns

/** Executors hand these values over; they are not projected from events. */
export const SLICES = {
  slice: 'text',
  version: 'integer',
  checkpoint: 'integer',
  seq: 'bigint',
  digest: 'text',
  value: 'jsonb',
  created_at: 'timestamptz',
  raw: 'text',
} as const satisfies Columns

/** Decisions on stored requests. */
export const DECISIONS = {
  call_id: 'text',
  status: 'text',
  decided_at: 'timestamptz',
  decided_by: 'text',
  note: 'text',
  rule: 'text',
  raw_decision: 'text',
} as const satisfies Columns

export const RECOVERIES = {
  seq: 'bigint',
  run: 'integer',
  kind: 'text',
  strategy: 'text',
  by: 'text',
  note: 'text',
  details: 'jsonb',
  at: 'timestamptz',
  outcome: 'text',
  outcome_code: 'text',
  ended_at: 'timestamptz',
  raw: 'text',
} as const satisfies Columns
