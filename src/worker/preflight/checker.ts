// The parent's side of the process that compares open sessions with a worker module. User code runs only there.
import type { PawlError } from '../../session/errors.ts'
import { crossed } from '../crossed.ts'
import { moduleExited, moduleHangs } from '../parent/executor-process.ts'
import { forkChecker, tell } from '../parent/processes.ts'
import type { PreflightWarning, UnverifiedTool } from '../preflight-report.ts'
import type { DeclaredAgentCall, FromChecker, ReplayedSession } from '../protocol.ts'

export interface Checker {
  /** The module's `external` tools without `verify`. */
  unverified: UnverifiedTool[]
  /** The module's tools whose calls other agents answer. */
  agentCalls: DeclaredAgentCall[]
  /** @throws WorkerError `module_exited` if the process has ended. */
  check(session: ReplayedSession): Promise<PreflightWarning[]>
  end(): void
}

interface CheckWaiter {
  resolve(warnings: PreflightWarning[]): void
  reject(error: PawlError): void
}

/** Loads a module in its own process. @throws WorkerError, DeclarationError if the module cannot be loaded. */
export async function startChecker(module: string, loadTimeoutMs: number): Promise<Checker> {
  const child = forkChecker(module)
  const waiting = new Map<number, CheckWaiter>()
  let lastRequest = 0
  let isLoaded = false
  let unverified: UnverifiedTool[] = []
  let agentCalls: DeclaredAgentCall[] = []
  let gone: PawlError | undefined

  const ask = (request: number, send: () => void): Promise<PreflightWarning[]> =>
    new Promise((resolve, reject) => {
      if (gone) return reject(gone)
      waiting.set(request, { resolve, reject })
      send()
    })
  const settle = (request: number, warnings: PreflightWarning[]): void => {
    waiting.get(request)?.resolve(warnings)
    waiting.delete(request)
  }
  const fail = (error: PawlError): void => {
    gone ??= error
    for (const { reject } of waiting.values()) reject(gone)
    waiting.clear()
  }

  // The first answer means that the module is loaded.
  const loaded = ask(lastRequest, () => undefined)
  const late = setTimeout(() => {
    fail(moduleHangs(module, loadTimeoutMs))
    child.kill('SIGKILL')
  }, loadTimeoutMs)
  child.on('message', (message: FromChecker) => {
    if (message?.pawl === 'loaded') {
      ;({ unverified, agentCalls } = message)
      settle(0, [])
    } else if (message?.pawl === 'checked') settle(message.request, message.warnings)
    else if (message?.pawl === 'start_failed') fail(crossed(message.error))
  })
  const ended = (code: number | null): void =>
    fail(moduleExited(module, code, isLoaded ? 'while sessions were compared with it' : undefined))
  child.once('error', () => ended(null))
  child.once('exit', ended)
  await loaded.finally(() => clearTimeout(late))
  isLoaded = true
  return {
    unverified,
    agentCalls,
    check(session) {
      lastRequest += 1
      const request = lastRequest
      return ask(request, () => tell(child, { pawl: 'check', request, session }))
    },
    end: () => void child.kill('SIGKILL'),
  }
}
