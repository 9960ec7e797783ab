// The ids of traces and spans. They are derived from what they describe, so that every process computes the same ids.
import { sha256 } from '@noble/hashes/sha2.js'
import type { TraceRoot } from '../session/agents/agent-call-facts.ts'
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js'

/** A stretch of a run, which one trace describes. */
export interface Stretch {
  sessionId: string
  run: number
  /** See `RunState`. Absent for the first stretch. */
  stretch?: number | undefined
  /** The stretch whose trace has its spans, if it is another one: the run answers a call of another session. */
  trace?: TraceRoot | undefined
}

/** What a span describes, within a stretch. */
export type SpanSubject =
  | { kind: 'run' }
  | { kind: 'turn'; turn: number }
  | { kind: 'model'; turn: number; attempt: number }
  /** An attempt to summarise the conversation, identified by the `seq` of its event. */
  | { kind: 'compaction'; turn: number; seq: number }
  | { kind: 'tool'; callId: string; attempt: number }
  /** What happened at one moment, outside a turn in progress. */
  | { kind: 'event'; seq: number }

/** A span and its trace: what the span's children and links refer to. */
export interface SpanRef {
  /** 32 hex digits. */
  traceId: string
  /** 16 hex digits. */
  spanId: string
}

/** The id of a stretch's trace. */
export function traceIdOf(of: Stretch): string {
  const { sessionId, run, stretch = 1 } = of.trace ?? of
  return derived(['trace', sessionId, run, stretch], 16)
}

/** The ids of a span of the stretch. */
export function spanOf(of: Stretch, about: SpanSubject): SpanRef {
  const { sessionId, run, stretch = 1 } = of
  return { traceId: traceIdOf(of), spanId: derived(['span', sessionId, run, stretch, ...partsOf(about)], 8) }
}

function partsOf(about: SpanSubject): (string | number)[] {
  switch (about.kind) {
    case 'run':
      return ['run']
    case 'turn':
      return ['turn', about.turn]
    case 'model':
      return ['model', about.turn, about.attempt]
    case 'compaction':
      return ['compaction', about.turn, about.seq]
    case 'tool':
      return ['tool', about.callId, about.attempt]
    case 'event':
      return ['event', about.seq]
  }
}

function derived(parts: readonly (string | number)[], bytes: number): string {
  return bytesToHex(sha256(utf8ToBytes(JSON.stringify(parts))).subarray(0, bytes))
}
