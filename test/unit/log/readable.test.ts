// A log line on a terminal.
import { expect, it } from 'vitest'
import { readable } from '../../../src/log/readable.ts'

const AT = new Date(2026, 10, 1, 9, 5, 7, 42)
const lineOf = (fields: object, message = 'session opened') => readable({ at: AT, level: 'info', fields, message }, false)

it('a readable log line has the time, the level, the message and the fields', () => {
  expect(lineOf({ session: 'customer-42', run: 1, agent: 'support desk', args: { cents: 5 } })).toBe(
    '09:05:07.042 info  session opened session=customer-42 run=1 agent="support desk" args={"cents":5}\n',
  )
})

it('a readable log line always stays on one line, and cannot control the terminal', () => {
  const line = lineOf({ reason: 'a\nb\u001b[31m\u009b1m' }, 'one\ntwo\u001b[2J')
  expect(line.split('\n')).toHaveLength(2)
  expect(line).toContain('one\\u000atwo\\u001b[2J reason="a\\nb\\u001b[31m\\u009b1m"')
})

it('a readable log line has the message and the code of an error; the stack of an unexpected one follows', () => {
  const stack = 'TypeError: no\n    at here (a.ts:1)'
  expect(lineOf({ err: { message: 'No key.', code: 'no_api_key', stack } }, 'failed')).toBe(
    '09:05:07.042 info  failed error="No key." code=no_api_key\n',
  )
  expect(lineOf({ err: { message: 'no', stack } }, 'failed')).toBe('09:05:07.042 info  failed error=no\n    at here (a.ts:1)\n')
})

it('a readable log line is followed by the stack of a failed attempt', () => {
  const stack = '    at look (/app/tools.ts:3:9)\nCaused by: Error: no\n    at ask (/app/bank.ts:7:1)'
  expect(lineOf({ attempt: 1, reason: 'no', stack }, 'failed').split('\n')).toEqual([
    '09:05:07.042 info  failed attempt=1 reason=no',
    '    at look (/app/tools.ts:3:9)',
    '    Caused by: Error: no',
    '    at ask (/app/bank.ts:7:1)',
    '',
  ])
})

it('a readable log line has colours only if the terminal does', () => {
  const coloured = readable({ at: AT, level: 'warn', fields: { session: 's' }, message: 'm' }, true)
  expect(coloured).toContain('\u001b[33mwarn \u001b[39m')
})
