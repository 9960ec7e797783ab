// Refusals over HTTP: what they tell a client to do next is possible over HTTP.
import { describe, expect, it } from 'vitest'
import { RequestRefusedError, RunFailedError, SessionNotFoundError } from '../../../src/client/errors.ts'
import { problemOf } from '../../../src/service/problem.ts'
import { SUGGESTIONS } from '../../../src/session/suggestions.ts'

describe('a problem', () => {
  it.each([
    [new SessionNotFoundError('s'), 'There is no session "s". Check its id, or start it with `POST /v1/sessions`.'],
    [new SessionNotFoundError('s', { where: 'store' }), '; `GET /v1/sessions/{session}` says what it waits for.'],
    [
      new RunFailedError({ code: 'max_turns', reason: 'Too many turns.', strategy: 'continue_run' }),
      'or send {"strategy":"continue_run"} to `POST /v1/sessions/{session}/recover`.',
    ],
    [
      new RunFailedError({ code: 'max_turns', reason: 'Too many turns.', strategy: 'manual' }),
      'with one of the strategies in `error.options` of `GET /v1/sessions/{session}/state`.',
    ],
    [
      new RequestRefusedError('choose_strategy', `Raise the budget (\`${SUGGESTIONS.raise({ session: 's', scope: 'run', maxUsd: 2 })}\`).`),
      'Raise the budget (`POST /v1/sessions/{session}/raise`).',
    ],
    [
      new RequestRefusedError('not_open', 'The session ended. Open it again with resume, then close it.'),
      'Open it again with `POST /v1/sessions/{session}/resume`, then close it.',
    ],
  ])('a problem says what to do over HTTP instead of: %s', (error, said) => {
    expect(error.message).not.toContain(said)
    expect(problemOf(error).detail).toContain(said)
  })

  it('a problem leaves commands for operators of the deployment as they are', () => {
    const text = `The schema lacks a table: run \`${SUGGESTIONS.migrate()}\`.`
    expect(problemOf(new RequestRefusedError('schema_behind', text)).detail).toBe(text)
  })
})
