// The rolling digest over a session's events. It shows whether two processes have the same first n events.
import { sha256 } from '@noble/hashes/sha2.js'
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js'
import type { LogEntry } from './events.ts'

const DATED = /^(\{"v":1,"seq":\d+,)"at":\d+,("type":"(\w+)")/
const TIME = /^\{"v":1,"seq":\d+,"at":(\d+),/
const WITH_DUE_TIME = new Set(['approval_requested', 'answer_requested', 'sleep_started', 'error_entered'])

/**
 * The digest after the event `json`, given the digest before it. 128 bits, hex. The digest omits times, because a task that was rejected
 * and repeated makes the same events at another time. The SDK may also give a task and its replay different times: it replays a task
 * without commands together with the next one that has an update.
 */
export function nextDigest(prev: string, json: string): string {
  return bytesToHex(sha256(utf8ToBytes(prev + timeless(json))).subarray(0, 16))
}

function timeless(json: string): string {
  const [dated, before = '', type = '', name = ''] = DATED.exec(json) ?? []
  if (dated === undefined) return json
  const rest = json.slice(dated.length)
  return before + type + (WITH_DUE_TIME.has(name) ? rest.replace(/,"(?:expiresAt|nextAttemptAt)":\d+/, '') : rest)
}

/** The time of an entry's event. */
export function timeOf({ json }: LogEntry): number {
  return Number(TIME.exec(json)?.[1])
}

/** Whether `entries` are contiguous, continue `from`, and have the digests of their text. */
export function continues(from: { seq: number; digest: string }, entries: readonly LogEntry[]): boolean {
  let { seq, digest } = from
  for (const entry of entries) {
    if (entry.seq !== seq + 1 || entry.prev !== digest || entry.digest !== nextDigest(digest, entry.json)) return false
    seq = entry.seq
    digest = entry.digest
  }
  return true
}

/** A 64-bit digest of a text, in hex, for sets that only check membership. */
export function shortHash(text: string): string {
  return nextDigest('', text).slice(0, 16)
}
