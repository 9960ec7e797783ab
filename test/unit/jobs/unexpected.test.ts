// When two errors that pawl does not know count as the same.
import { describe, expect, it } from 'vitest'
import { unexpectedDigest } from '../../../src/jobs/model-call/after-failure.ts'

/** An error that names a request, from one line. */
const lost = (request: string): Error => new TypeError(`Request ${request} has no usage.`)
const lostElsewhere = (request: string): Error => new TypeError(`Request ${request} has no usage.`)
const parse = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch (error) {
    return error
  }
}
const unreadable = () =>
  new Proxy(new Error(), {
    get() {
      throw new Error('no')
    },
  })
/** An error with this stack. */
const withStack = (message: string, ...frames: string[]): Error =>
  Object.assign(new Error(message), { stack: [`Error: ${message}`, ...frames.map((frame) => `    at ${frame}`)].join('\n') })

describe('two unexpected errors', () => {
  it.each<[string, () => unknown, () => unknown]>([
    ['texts that name different requests, with letters only', () => lost('abcdefgh'), () => lost('qrstuvwx')],
    ['different callers', () => lost('a'), () => [1].map(() => lost('b'))[0]],
    ["a line of the user's code that called Node's", () => parse('{a'), () => parse('[b')],
    [
      'another folder in which the project is installed',
      () => withStack('a', 'f (/app/one/model.js:3:9)'),
      () => withStack('b', 'f (/srv/one/model.js:3:9)'),
    ],
    [
      'a module that was loaded again',
      () => withStack('a', 'file:///app/model.ts?v=1:3:9'),
      () => withStack('b', 'file:///app/model.ts?v=2:3:9'),
    ],
    [
      'a message with lines that look like frames',
      () => withStack('a\n    at x (/a.js:1:1)', 'f (/app/m.js:3:9)'),
      () => withStack('b\n    at y (/b.js:2:2)', 'f (/app/m.js:3:9)'),
    ],
    ['no stack, and numbers that differ', () => 'request 17 failed', () => 'request 4f2 failed'],
    ['nothing that can be read', unreadable, unreadable],
  ])('two unexpected errors are the same with %s', (_, first, second) => {
    expect(unexpectedDigest(first())).toBe(unexpectedDigest(second()))
  })

  it.each<[string, () => unknown, () => unknown]>([
    ['different lines', () => lost('a'), () => lostElsewhere('a')],
    ['another class', () => lost('a'), () => Object.assign(lost('a'), { name: 'RangeError' })],
    ['another code', () => lost('a'), () => Object.assign(lost('a'), { code: 'EX' })],
    [
      'another library below',
      () => withStack('a', 'f (/app/node_modules/one/index.js:3:9)'),
      () => withStack('a', 'f (/app/node_modules/two/index.js:3:9)'),
    ],
    ['no stack, and other words', () => 'it is broken', () => 'it is late'],
  ])('two unexpected errors differ with %s', (_, first, second) => {
    expect(unexpectedDigest(first())).not.toBe(unexpectedDigest(second()))
  })

  it('the comparison of two unexpected errors ignores frames of Node itself', () => {
    const frames = ['new URL (node:internal/url:797:36)', 'f (/app/src/model.js:3:9)', 'g (/app/src/other.js:1:1)']
    expect(unexpectedDigest(withStack('a', ...frames))).toBe(unexpectedDigest(withStack('a', ...frames.slice(1, 2))))
  })
})
