// Questions that tools ask users: how several become one at a time, what their answers may contain, and what the next attempt gets.
import { describe, expect, it } from 'vitest'
import type { Json, JsonObject } from '../../../src/session/json.ts'
import { askedQuestion, askingAfter, nextQuestion, repliedTo, repliesOf, replyProblem } from '../../../src/session/question.ts'
import type { CallQuestion } from '../../../src/session/question-facts.ts'

const question = (id: string, properties: JsonObject = {}, required: string[] = []): CallQuestion => ({
  id,
  from: 'shop',
  message: `${id}?`,
  schema: { type: 'object', properties, required },
})

describe('questions of one attempt', () => {
  it('several questions are asked one after another, and the next attempt gets all replies and the state', () => {
    const first = askedQuestion(1, [question('a'), question('b')], 'kept')
    expect(first).toMatchObject({ attempt: 1, question: { id: 'a' }, more: [{ id: 'b' }], state: 'kept' })
    const asked = askingAfter(undefined, first!)
    expect(nextQuestion({ asking: asked })).toBeUndefined()
    const replied = repliedTo(asked, { action: 'decline' })
    const second = nextQuestion({ asking: replied })
    expect(second).toMatchObject({ attempt: 1, question: { id: 'b' } })
    const done = repliedTo(askingAfter(replied, second!), { action: 'accept', content: {} })
    expect(nextQuestion({ asking: done })).toBeUndefined()
    expect(repliesOf(done)).toEqual({
      replies: { a: { action: 'decline' }, b: { action: 'accept', content: {} } },
      state: 'kept',
      rounds: 1,
    })
  })

  it('a further attempt that asks starts a new round, without the replies and the state of the one before', () => {
    const before = repliedTo(askingAfter(undefined, askedQuestion(1, [question('a')], 'old')!), { action: 'cancel' })
    const after = askingAfter(before, askedQuestion(2, [question('a')])!)
    expect(repliesOf(after)).toEqual({ replies: {}, rounds: 2 })
  })

  it('the same question of another attempt has another digest', () => {
    const digests = [1, 2].map((attempt) => askedQuestion(attempt, [question('a')])?.digest)
    expect(new Set(digests).size).toBe(2)
  })
})

describe('answers to questions', () => {
  const FIELDS: JsonObject = {
    text: { type: 'string', minLength: 2, maxLength: 3 },
    email: { type: 'string', format: 'email' },
    uri: { type: 'string', format: 'uri' },
    date: { type: 'string', format: 'date' },
    time: { type: 'string', format: 'date-time' },
    other: { type: 'string', format: 'unheard-of' },
    whole: { type: 'integer', minimum: 1, maximum: 3 },
    number: { type: 'number' },
    flag: { type: 'boolean' },
    one: { type: 'string', enum: ['x', 'y'] },
    titled: { type: 'string', oneOf: [{ const: 'x', title: 'X' }] },
    some: { type: 'array', items: { type: 'string', enum: ['x', 'y'] }, minItems: 1, maxItems: 2 },
    titledSome: { type: 'array', items: { anyOf: [{ const: 'x', title: 'X' }] } },
  }
  const problemWith = (name: string, value: Json) => replyProblem(question('q', FIELDS), { action: 'accept', content: { [name]: value } })

  it.each<[string, Json]>([
    ['text', 'ab'],
    ['text', '😀😀'],
    ['email', 'ann@example.com'],
    ['uri', 'https://example.com'],
    ['date', '2026-07-28'],
    ['time', '2026-07-28T12:00:00Z'],
    ['other', 'anything'],
    ['whole', 2],
    ['number', 1.5],
    ['flag', false],
    ['one', 'y'],
    ['titled', 'x'],
    ['some', ['x', 'y']],
    ['titledSome', []],
  ])('a field %s accepts %j', (name, value) => {
    expect(problemWith(name, value)).toBeUndefined()
  })

  it.each<[string, Json, string]>([
    ['text', 'a', 'at least 2 characters'],
    ['text', 'abcd', 'at most 3 characters'],
    ['text', 7, 'text'],
    ['email', 'ann', 'an email address'],
    ['uri', 'here', 'a URI'],
    ['date', '2026-13-28', 'a date'],
    ['time', '2026-07-28', 'a time'],
    ['whole', 1.5, 'a whole number'],
    ['whole', 0, 'at least 1'],
    ['whole', 4, 'at most 3'],
    ['number', '1', 'a number'],
    ['flag', 'true', 'true or false'],
    ['one', 'z', 'one of "x", "y"'],
    ['titled', 'X', 'one of "x"'],
    ['some', 'x', 'a list of texts'],
    ['some', [], 'at least 1'],
    ['some', ['x', 'y', 'x'], 'at most 2'],
    ['some', ['z'], 'one of "x", "y"'],
    ['titledSome', ['X'], 'one of "x"'],
    ['unknown', 1, 'does not ask for'],
    ['constructor', 1, 'does not ask for'],
  ])('a field %s refuses %j', (name, value, problem) => {
    expect(problemWith(name, value)).toContain(problem)
  })

  it('required fields must be there, and content belongs to accepted forms only', () => {
    const required = question('q', FIELDS, ['flag'])
    expect(replyProblem(required, { action: 'accept', content: {} })).toContain('content.flag is missing')
    expect(replyProblem(required, { action: 'accept' })).toContain('must be an object')
    expect(replyProblem(required, { action: 'decline' })).toBeUndefined()
    expect(replyProblem(required, { action: 'cancel', content: {} })).toContain('has content')
    const url: CallQuestion = { id: 'u', from: 'shop', message: 'Pay.', url: 'https://bank.example' }
    expect(replyProblem(url, { action: 'accept' })).toBeUndefined()
    expect(replyProblem(url, { action: 'accept', content: {} })).toContain('has no content')
  })
})
