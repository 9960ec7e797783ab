// The process that loads a worker module for `pawl preflight` and compares open sessions with its agents. It creates no services.
import { once } from 'node:events'
import { crossing } from '../errors.ts'
import type { FromChecker, ToChecker } from '../protocol.ts'
import { agentCallsIn } from './check-agent-calls.ts'
import { checkSession, unverifiedIn } from './check-session.ts'
import { loadWorkerModule } from './load-module.ts'
import { poster } from './poster.ts'

const post = poster<FromChecker>()

void once(process, 'disconnect').then(() => process.exit(0))

try {
  const { agents } = await loadWorkerModule(process.argv[2] ?? '')
  const byName = new Map(agents.map((agent) => [agent.name, agent]))
  process.on('message', (message: ToChecker) => {
    if (message?.pawl !== 'check') return
    const { request, session } = message
    void checkSession(byName, session).then((warnings) => post({ pawl: 'checked', request, warnings }))
  })
  await post({ pawl: 'loaded', unverified: agents.flatMap(unverifiedIn), agentCalls: agentCallsIn(byName) })
} catch (error) {
  await post({ pawl: 'start_failed', error: crossing(error) })
  process.exit(1)
}
