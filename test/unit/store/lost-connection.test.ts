// A Postgres that ends a connection in the packet that accepts it: the statement fails, and nothing else does.
import { type AddressInfo, createServer } from 'node:net'
import { afterEach, expect, it } from 'vitest'
import { databaseAt } from '../../../src/store/postgres/database.ts'

const ends: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const end of ends.splice(0)) await end()
})

/** A message of the protocol: its type, its length, its content. */
function message(type: string, content: Buffer): Buffer {
  const length = Buffer.alloc(4)
  length.writeInt32BE(content.length + 4)
  return Buffer.concat([Buffer.from(type), length, content])
}

const AUTHENTICATED = message('R', Buffer.alloc(4))
const READY = message('Z', Buffer.from('I'))
const TERMINATED = message('E', Buffer.from('SFATAL\0C57P01\0Mterminating connection due to administrator command\0\0'))

/** A server that ends each connection as it accepts it, in one packet. */
async function curtServer(): Promise<string> {
  const server = createServer((socket) => {
    socket.on('error', () => undefined)
    socket.once('data', () => socket.end(Buffer.concat([AUTHENTICATED, READY, TERMINATED])))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  ends.push(() => new Promise((resolve) => server.close(resolve)))
  return `postgres://pawl@127.0.0.1:${(server.address() as AddressInfo).port}/pawl`
}

it('a connection that ends as soon as it is made fails its statement, and does not end the process', async () => {
  const uncaught: unknown[] = []
  const note = (error: unknown): void => void uncaught.push(error)
  const others = process.listeners('uncaughtException')
  process.removeAllListeners('uncaughtException').on('uncaughtException', note)
  ends.push(async () => {
    process.off('uncaughtException', note)
    for (const other of others) process.on('uncaughtException', other)
  })
  const database = databaseAt(await curtServer())
  ends.unshift(() => database.close())
  await expect(database.query('select 1')).rejects.toMatchObject({ name: 'StoreError', code: 'store_unavailable' })
  expect(uncaught).toEqual([])
})
