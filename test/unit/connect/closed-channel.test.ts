// Calls to Temporal that are in progress when their connection is closed.
import { createServer, type AddressInfo, type Server } from 'node:net'
import { Client, Connection } from '@temporalio/client'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { interceptors } from '../../../src/connect/closed-channel.ts'

/** A server that drops every connection: each call to it is retried after a while. */
let away: Server
let hungUp: Promise<void>
let connection: Connection

beforeEach(async () => {
  let heard: () => void
  hungUp = new Promise((resolve) => {
    heard = resolve
  })
  away = createServer((socket) => {
    socket.destroy()
    heard()
  })
  await new Promise<void>((resolve) => away.listen(0, '127.0.0.1', resolve))
  connection = Connection.lazy({ address: `127.0.0.1:${(away.address() as AddressInfo).port}`, interceptors: interceptors() })
})

afterEach(() => new Promise((resolve) => away.close(resolve)))

describe('a call to Temporal', () => {
  it('a call to Temporal that is waiting for its retry when its connection is closed fails, and the process survives', async () => {
    const call = new Client({ connection }).workflow.getHandle('pawl:s').describe()
    const said = call.then(
      () => 'answered',
      (error: { cause?: { details?: string } }) => error.cause?.details,
    )
    await hungUp
    await connection.close()
    expect(await said).toContain('was closed during the call')
  })

  it('a call to Temporal that is made on a closed connection fails', async () => {
    await connection.close()
    const call = new Client({ connection }).workflow.getHandle('pawl:s').describe()
    await expect(call).rejects.toMatchObject({ cause: { details: expect.stringContaining('was closed') } })
  })
})
