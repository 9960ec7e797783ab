// The rolling digest. It must never change, because histories and stores contain it. sound-session.test.ts tests what it detects.
import { createHash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { continues, nextDigest, shortHash } from '../../../src/session/digest.ts'

describe('the digest', () => {
  it('the digest is half of the SHA-256 of the previous digest and the text', () => {
    const first = createHash('sha256').update('{"a":"é\u{1F600}"}').digest('hex').slice(0, 32)
    expect(nextDigest('', '{"a":"é\u{1F600}"}')).toBe(first)
    expect(nextDigest(first, '{}')).toBe(createHash('sha256').update(`${first}{}`).digest('hex').slice(0, 32))
  })

  it('an empty list of events continues from any digest', () => {
    expect(continues({ seq: 7, digest: 'd' }, [])).toBe(true)
  })

  it('the digest continues only from the event right before it', () => {
    const entry = { seq: 8, prev: 'd', digest: nextDigest('d', '{}'), json: '{}' }
    expect(continues({ seq: 7, digest: 'd' }, [entry])).toBe(true)
    expect(continues({ seq: 6, digest: 'd' }, [entry])).toBe(false)
    expect(continues({ seq: 7, digest: 'e' }, [entry])).toBe(false)
  })

  it('the digest has a short form of 64 bits', () => {
    expect(shortHash('m1')).toMatch(/^[0-9a-f]{16}$/)
    expect(shortHash('m1')).toBe(createHash('sha256').update('m1').digest('hex').slice(0, 16))
  })
})
