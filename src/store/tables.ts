// The columns that the writer fills, table by table; session_id and agent come on top of them.

/** Column name to SQL type. */
export type Columns = Readonly<Record<string, 'text' | 'bigint' | 'integer' | 'boolean' | 'jsonb' | 'timestamptz'>>

/** A row for such columns: jsonb as JSON text, timestamps as ISO text. */
export type RowOf<C extends Columns> = { -readonly [K in keyof C]: string | number | boolean | null }

export const EVENTS = {
  seq: 'bigint',
  epoch: 'text',
  type: 'text',
  run: 'integer',
  turn: 'integer',
  at: 'timestamptz',
  digest: 'text',
  json: 'text',
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
  position: 'bigint',
  ordinal: 'integer',
  at: 'timestamptz',
  raw: 'text',
} as const satisfies Columns

/** What a turn says of messages that it takes. */
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
  status: 'text',
  attempt: 'integer',
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
  retryable: 'boolean',
  next_delay_ms: 'bigint',
  worker: 'text',
  at: 'timestamptz',
  raw: 'text',
} as const satisfies Columns

export const TOKEN_USAGE = {
  seq: 'bigint',
  run: 'integer',
  turn: 'integer',
  model: 'text',
  input_tokens: 'bigint',
  output_tokens: 'bigint',
  cache_creation_input_tokens: 'bigint',
  cache_read_input_tokens: 'bigint',
  at: 'timestamptz',
} as const satisfies Columns
