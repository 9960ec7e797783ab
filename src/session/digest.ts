// The rolling digest over a session's events: tells whether two holders of "the first n events" hold the same ones.
import { sha256 } from '@noble/hashes/sha2.js'
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js'
import type { LogEntry } from './events.ts'

/** The digest after the event `json`, given the digest before it. 128 bits, hex. */
export function nextDigest(prev: string, json: string): string {
  return bytesToHex(sha256(utf8ToBytes(prev + json)).subarray(0, 16))
}

/** Whether `entries` are contiguous, continue `from`, and carry the digests that their text gives. */
export function continues(from: { seq: number; digest: string }, entries: readonly LogEntry[]): boolean {
  let { seq, digest } = from
  for (const entry of entries) {
    if (entry.seq !== seq + 1 || entry.prev !== digest || entry.digest !== nextDigest(digest, entry.json)) return false
    seq = entry.seq
    digest = entry.digest
  }
  return true
}

/** 64 bits of a digest of some text, hex: for sets that only ask "seen before?". */
export function shortHash(text: string): string {
  return nextDigest('', text).slice(0, 16)
}
