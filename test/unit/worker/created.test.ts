// The creation of a Temporal worker while its server is unavailable for a moment.
import { TransportError } from '@temporalio/worker'
import { expect, it } from 'vitest'
import { created } from '../../../src/worker/orchestrator/temporal/created.ts'

const away = () => new TransportError('Namespace default could not be described: Status { code: Unavailable, message: "interrupted" }')

/** Fails with these errors, one after another, and then succeeds. */
function failingWith(...errors: Error[]) {
  let tries = 0
  const create = async (): Promise<string> => {
    const error = errors[tries++]
    if (error) throw error
    return 'a worker'
  }
  return { create, tries: () => tries }
}

it('a worker is created although its server was unavailable for a moment', async () => {
  const { create, tries } = failingWith(away(), away())
  expect(await created(create, 1)).toBe('a worker')
  expect(tries()).toBe(3)
})

it('creating a worker fails with an error if its server stays unavailable', async () => {
  const { create } = failingWith(...Array.from({ length: 100 }, away))
  await expect(created(create, 1)).rejects.toThrow('could not be described')
})

it('creating a worker fails at once for any other reason', async () => {
  for (const error of [new TransportError('Status { code: NotFound }'), new Error('code: Unavailable')]) {
    const { create, tries } = failingWith(error)
    await expect(created(create, 1)).rejects.toBe(error)
    expect(tries()).toBe(1)
  }
})
