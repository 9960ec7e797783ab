// The console of `pawl dev`: the HTTP interface on the loopback interface, for the one key in the address that is printed.
import { randomBytes } from 'node:crypto'
import type { ConnectOptions } from '../../client/index.ts'

/** The port of `pawl serve`; another one if it is in use. */
const PORT = 8787

export interface DevConsole {
  /** Where a browser opens it, signed in. */
  url: string
  stop(): Promise<void>
}

export async function startConsole(at: ConnectOptions): Promise<DevConsole> {
  const [{ Pawl }, { startServer }] = await Promise.all([import('../../client/index.ts'), import('../../service/server.ts')])
  const pawl = await Pawl.connect(at)
  const ownKey = randomBytes(24).toString('base64url')
  const common = {
    pawl,
    host: '127.0.0.1',
    origins: [],
    perMinute: 0,
    drainDelayMs: 0,
    console: true,
    ownKey,
    errorTexts: 'shown',
  } as const
  const server = await startServer({ ...common, port: PORT }).catch((error: unknown) => {
    if ((error as { code?: unknown }).code !== 'cannot_listen') throw error
    return startServer({ ...common, port: 0 })
  })
  return {
    url: `${server.url}/console/#/sign-in?key=${ownKey}`,
    async stop() {
      await server.stop(Promise.resolve())
      await pawl.close()
    },
  }
}
