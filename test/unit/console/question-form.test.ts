// The console's form for a question of a tool: what is entered is an answer that the session accepts.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { contentOf, fieldsOf, webAddress } from '../../../console/src/session/question-form.ts'
import type { JsonObject } from '../../../src/session/json.ts'
import { replyProblem } from '../../../src/session/question.ts'

const SCHEMA: JsonObject = {
  type: 'object',
  properties: {
    amount: { type: 'integer', title: 'Amount', description: 'In euros', minimum: 1, maximum: 5_000 },
    rate: { type: 'number' },
    reason: { type: 'string', enum: ['late', 'lost'], enumNames: ['Came late', 'Was lost'], default: 'lost' },
    colour: { type: 'string', oneOf: [{ const: 'r', title: 'Red' }, { const: 'g' }] },
    parts: { type: 'array', items: { anyOf: [{ const: 'a', title: 'Part A' }, { const: 'b' }] }, default: ['a'] },
    sizes: { type: 'array', items: { type: 'string', enum: ['S', 'M'] } },
    notify: { type: 'boolean', default: true },
    email: { type: 'string', format: 'email' },
  },
  required: ['amount', 'notify'],
}
const question = { id: 'q', from: 'shop', message: 'How much?', schema: SCHEMA }

function entered(values: Record<string, string | readonly string[]>): FormData {
  const form = new FormData()
  for (const [name, value] of Object.entries(values)) for (const one of [value].flat()) form.append(name, one)
  return form
}

describe('the form for a question', () => {
  it('the form for a question has a field for each member of the schema, with its choices and what it must be', () => {
    const fields = fieldsOf(SCHEMA)
    expect(fields.map(({ name, label, kind, isRequired }) => [name, label, kind, isRequired])).toEqual([
      ['amount', 'Amount', 'number', true],
      ['rate', 'rate', 'number', false],
      ['reason', 'reason', 'choice', false],
      ['colour', 'colour', 'choice', false],
      ['parts', 'parts', 'choices', false],
      ['sizes', 'sizes', 'choices', false],
      ['notify', 'notify', 'yes', true],
      ['email', 'email', 'text', false],
    ])
    const [amount, , reason, colour, parts, sizes, notify, email] = fields
    expect(amount?.hint).toBe('In euros, a whole number, at least 1, at most 5,000')
    expect(reason).toMatchObject({ initial: ['lost'], choices: [{ title: 'Came late', value: 'late' }, { title: 'Was lost' }] })
    expect(colour?.choices).toEqual([
      { value: 'r', title: 'Red' },
      { value: 'g', title: 'g' },
    ])
    expect(parts).toMatchObject({ initial: ['a'], choices: [{ value: 'a', title: 'Part A' }, { value: 'b' }] })
    expect(sizes?.choices.map(({ value }) => value)).toEqual(['S', 'M'])
    expect([notify?.initial, email?.hint]).toEqual([['true'], 'an email address'])
  })

  it('the form for a question answers with what was entered; what was left empty is absent, and what is not a number is refused', () => {
    const fields = fieldsOf(SCHEMA)
    const content = contentOf(fields, entered({ amount: ' 12 ', rate: '', parts: ['a', 'b'], colour: '', email: 'a@b', notify: 'true' }))
    expect(content).toEqual({ amount: 12, parts: ['a', 'b'], notify: true, email: 'a@b' })
    expect(replyProblem(question, { action: 'accept', content })).toBeUndefined()
    const wrong = contentOf(fields, entered({ amount: 'twelve' }))
    expect(wrong).toEqual({ amount: 'twelve', notify: false })
    expect(replyProblem(question, { action: 'accept', content: wrong })).toContain('amount')
  })

  it('the form for a question answers acceptably with any choice, and with what it suggests', () => {
    const choice = fc.record({
      amount: fc.integer({ min: 1, max: 5_000 }).map(String),
      rate: fc.double({ noNaN: true, noDefaultInfinity: true }).map(String),
      reason: fc.constantFrom('', 'late', 'lost'),
      colour: fc.constantFrom('', 'r', 'g'),
      parts: fc.subarray(['a', 'b']),
      sizes: fc.subarray(['S', 'M']),
    })
    fc.assert(
      fc.property(choice, (values) => {
        const content = contentOf(fieldsOf(SCHEMA), entered(values))
        expect(replyProblem(question, { action: 'accept', content })).toBeUndefined()
      }),
    )
  })

  it('the form for a question copes with a schema that says little, or nothing that can be shown', () => {
    expect(fieldsOf({})).toEqual([])
    expect(fieldsOf({ properties: 7, required: 'x' })).toEqual([])
    expect(fieldsOf({ properties: { a: null, __proto__: null } }).map(({ kind }) => kind)).toEqual(['text'])
  })

  it('a link is made of addresses of pages only', () => {
    expect(webAddress('https://bank.example/pay?order=7')?.host).toBe('bank.example')
    for (const url of ['javascript:alert(1)', 'data:text/html,x', 'file:///etc/passwd', '//bank.example', ''])
      expect(webAddress(url)).toBeUndefined()
  })
})
