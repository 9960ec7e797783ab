// The ids of requests that their senders have named: the name and, for an update, a digest of its details. Two requests with one name and other
// digests are a mistake of the sender: the answer of the first one would be taken for that of the second one.
import { REQUEST_ID } from './protocol.ts'

/** Hex digits of the parts. */
const DIGITS = { name: 40, digest: 16 }
const WITH_DIGEST = new RegExp(`^(${REQUEST_ID}[0-9a-f]{${DIGITS.name}})\\.[0-9a-f]{${DIGITS.digest}}$`)

/** The refusal of a request whose name another one has. */
export const REUSED = {
  code: 'request_id_reused',
  reason: 'Another request with other details has this id already, so this one was not carried out. Send it with an id of its own.',
}

/** The id of a request that its sender names. `details`: the text that distinguishes it from others; absent for one that gets no answer. */
export function namedRequest(method: string, name: string, sha256: (text: string) => string, details?: string): string {
  const id = `${REQUEST_ID}${sha256(`${method}\n${name}`).slice(0, DIGITS.name)}`
  return details === undefined ? id : `${id}.${sha256(details).slice(0, DIGITS.digest)}`
}

/** The id without its digest. */
export function nameIn(id: string): string {
  return WITH_DIGEST.exec(id)?.[1] ?? id
}

/** Whether two ids with one name are those of different requests. An id without a digest, of an earlier release, may be the same. */
export function areDifferent(one: string, other: string): boolean {
  return one !== other && WITH_DIGEST.test(one) && WITH_DIGEST.test(other)
}
