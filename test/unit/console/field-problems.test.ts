// Where a form shows what the service refuses.
import { expect, it } from 'vitest'
import { fieldProblems } from '../../../console/src/session/field-problems.ts'

const NAMES = { fields: ['id', 'times', 'timeZone'], members: { every: 'times', cron: 'times' }, codes: { schedule_exists: 'id' } }
const refused = (code: string, message: string, ...parts: [at: string, detail: string][]) =>
  fieldProblems({ code, message, parts: parts.map(([at, detail]) => ({ at, detail })) }, NAMES)

it('a form shows each refused part of the request at its field, and other refusals below the fields', () => {
  expect(refused('invalid_input', 'body.id: x; body.every: y.', ['body.id', 'x'], ['body.every', 'y'])).toEqual({ id: 'x', times: 'y' })
  expect(refused('invalid_input', 'body.cron[0]: x.', ['body.cron[0]', 'x'])).toEqual({ times: 'x' })
  expect(refused('invalid_input', 'body.other: x.', ['body.other', 'x'])).toEqual({ '': 'body.other: x.' })
  expect(refused('invalid_option', '`timeZone` must be a time zone.')).toEqual({ timeZone: '`timeZone` must be a time zone.' })
  expect(refused('schedule_exists', 'There is one.')).toEqual({ id: 'There is one.' })
  expect(refused('no_temporal', 'Temporal does not answer.')).toEqual({ '': 'Temporal does not answer.' })
})
