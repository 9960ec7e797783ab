// What users of a page read when something is refused or has failed: no command lines, no code, and nothing that a provider has written.
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { RequestRefusedError } from '../../../src/client/errors.ts'
import { ServiceError } from '../../../src/service/errors.ts'
import { problemOf } from '../../../src/service/problem.ts'
import { failureText, refusalText } from '../../../src/ui/user-texts.ts'

const page = readFileSync(new URL('../../../docs/errors.md', import.meta.url), 'utf8')
const codes = [...new Set([...page.matchAll(/`([a-z]+(?:_[a-z]+)+)`/g)].map(([, code = '']) => code))]

describe('a text for users', () => {
  it('a text for users exists for every code, and is a sentence without anything for developers', () => {
    expect(codes.length).toBeGreaterThan(100)
    for (const code of [...codes, 'constructor', '']) {
      const texts = [
        failureText(code),
        ...[400, 401, 403, 404, 409, 410, 413, 429, 500, 503, 504].map((status) => refusalText(code, status)),
      ]
      for (const text of texts) {
        expect(text, code).toMatch(/^[A-Z][A-Za-z ,.]+\.$/)
        expect(text, code).not.toMatch(/pawl|session|run\b|`|…/)
      }
    }
  })

  it('a mistaken request tells the user of a page what to do about it', () => {
    const refused = (code: string, status: number, at: string) => {
      return problemOf(new ServiceError(code, status, 'x', { parts: [{ at, detail: 'is missing' }] })).userMessage
    }
    expect(refused('invalid_input', 400, 'path.session')).toBe(
      'The address of this conversation is not valid. Check the link, or start a new conversation.',
    )
    expect(refused('invalid_input', 400, 'body.messages.0.parts.1')).toBe(
      'Your message contains something that cannot be sent. Change it, and try again.',
    )
    expect(refused('invalid_input', 400, 'query.limit')).toContain('Reload the page')
    expect(refusalText('session_not_found', 404)).toContain('start a new conversation')
  })

  it('each refusal has a text for users in addition to the code and the details', () => {
    const refused = problemOf(
      new RequestRefusedError('call_not_found', 'The current run has no call: `pawl pending` lists the calls that wait.'),
    )
    expect(refused).toMatchObject({ code: 'call_not_found', userMessage: 'This was already decided.' })
    expect(problemOf(new Error('postgres://user:password@host')).userMessage).toBe('Something went wrong. Try again later.')
  })
})
