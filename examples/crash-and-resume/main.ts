// Kills the processes of a worker in the middle of effects, and shows that nothing is lost and nothing happens twice.
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Pawl, type SessionHandle } from 'pawl/client'
import { startStack } from 'pawl/testing'
import { superviseWorkers } from 'pawl/worker'

const folder = await mkdtemp(join(tmpdir(), 'crash-and-resume-'))
const book = join(folder, 'book.txt')
process.env.PAWL_LOG_LEVEL ??= 'silent' // both deaths would log warnings
const stack = await startStack()
Object.assign(process.env, stack.env, { BOOK: book })
const at = {
  temporal: { address: stack.temporalAddress, namespace: stack.namespace },
  postgres: stack.databaseUrl,
  taskQueue: 'crash-and-resume',
}
const supervisor = await superviseWorkers({
  ...at,
  module: fileURLToPath(new URL('./worker.ts', import.meta.url)),
  onEvent: (event) => event.event === 'call_resumed' && console.log(`${event.call} was resumed ${event.ms} ms after the death`),
})
const pawl = await Pawl.connect(at)
try {
  await supervisor.ready()
  const session = pawl.session(`report-${Date.now().toString(36)}`, { agent: 'author' })
  const run = await session.send('Write a report about lamps.')
  await killDuring(2, 'both executors', () => supervisor.pids())
  await killDuring(3, 'the orchestrator', () => [supervisor.orchestratorPid()])
  console.log(`answer: ${(await run.result()).text}`)
  await session.close()
  await show(session)
} finally {
  await pawl.close()
  await supervisor.shutdown()
  await stack.stop()
  await rm(folder, { recursive: true })
}

/** SIGKILLs processes while a chapter is being written: its line is in the file, and its call has not returned. */
async function killDuring(chapter: number, what: string, pids: () => (number | undefined)[]): Promise<void> {
  while ((await lines()).length < chapter) await sleep(10)
  for (const pid of pids()) if (pid !== undefined) process.kill(pid, 'SIGKILL')
  console.log(`killed ${what} while chapter ${chapter} was being written`)
}

async function lines(): Promise<string[]> {
  const written = await readFile(book, 'utf8').catch(() => '')
  return written.split('\n').slice(0, -1)
}

/** What the file, the plan and the failed attempts say. */
async function show(session: SessionHandle): Promise<void> {
  console.log(`in the file: ${(await lines()).map((line) => line.split(' ')[0]).join(', ')}`)
  const plan = await session.plan()
  for (const { title, status, evidence } of plan?.steps ?? [])
    console.log(`${status === 'done' ? '[x]' : '[ ]'} ${title}: ${evidence ?? ''}`)
  for (const { context, callId, class: what, message } of await session.errors())
    console.log(`recorded: ${callId} ${context} ${what}: ${message}`)
}
