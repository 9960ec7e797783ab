// `npm run bench -- mcp`: what a turn with a tool of an MCP server costs against the same tool in process, what a long list of tools adds to
// it, how soon a stdio server that died answers again, and what connections of many users cost an executor.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { loadavg } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Client, Connection } from '@temporalio/client'
import type { Logger, ToolContext } from 'pawl'
import { Pawl } from 'pawl/client'
import { startStack } from 'pawl/testing'
import { mcp } from 'pawl/tools'
import { optionReader } from './options.ts'
import { memoryOf } from './proc.ts'
import { type Sample, sampleOf } from './statistics.ts'
import { turnsOf } from './turn/history.ts'
import { startWorker } from './worker/start.ts'

const TASK_QUEUE = 'bench-mcp'
const HELP = 'npm run bench -- mcp [--json] [--turns 100] [--rounds 5] [--bytes 1000] [--tools 1000] [--deaths 10] [--users 50]'
const { parse, positive } = optionReader(HELP)

/** The agents, of which the first one is what the others are compared with. */
const AGENTS = ['process', 'stdio', 'http', 'many'] as const
type AgentName = (typeof AGENTS)[number]

/** Turns before anything is measured: they prove that the tool is quick, and the engine compiles what each agent needs. */
const WARM_UP_TURNS = 300

/** Lets a worker come to rest. */
const SETTLE_MS = 2_000

/** Runs the benchmark. */
export async function run(args: string[]): Promise<void> {
  const options = parse(args, {
    json: { type: 'boolean', default: false },
    turns: { type: 'string', default: '100' },
    rounds: { type: 'string', default: '5' },
    bytes: { type: 'string', default: '1000' },
    tools: { type: 'string', default: '1000' },
    deaths: { type: 'string', default: '10' },
    users: { type: 'string', default: '50' },
  })
  const turns = positive('turns', options.turns)
  const rounds = positive('rounds', options.rounds)
  const bytes = positive('bytes', options.bytes)
  const tools = positive('tools', options.tools)
  // With --json, the machine-readable line is the only one on standard output.
  const say = (line: string) => void (options.json ? process.stderr : process.stdout).write(`${line}\n`)

  say(`${rounds} rounds of ${turns} turns, ${bytes} bytes a result; median ± half the distance of the quartiles`)
  const times = await timesOfTurns({ turns, rounds, bytes, tools })
  const against = (name: AgentName, base: AgentName, compare: (one: number, other: number) => number): Sample =>
    sampleOf(times[name].map((time, round) => compare(time, times[base][round] ?? Number.NaN)))
  const [stdio, http] = (['stdio', 'http'] as const).map((name) => against(name, 'process', (one, other) => one / other))
  const added = against('many', 'http', (one, other) => one - other)
  for (const name of AGENTS) say(`  ${LABELS[name].padEnd(34)} ${sampleOf(times[name]).median.toFixed(1)} ms a turn`)
  say(`over stdio ${ratioOf(stdio)} of the tool in process, over HTTP ${ratioOf(http)}`)
  say(`a list of ${tools} tools adds ${added.median.toFixed(1)} ms to a turn`)
  const again = sampleOf(await timesOfRestarts(positive('deaths', options.deaths), bytes))
  say(`a stdio server that was killed answers again within ${again.median.toFixed(0)} ms`)
  const users = positive('users', options.users)
  const grown = await memoryOfUsers(users, bytes)
  say(`connections of ${users} users to 4 servers over HTTP: the executor has grown by ${grown.toFixed(0)} MB`)
  say(`load average ${loadavg()[0]?.toFixed(1)}`)
  if (options.json) {
    const round = (value: number | undefined, digits: number) => Number(value?.toFixed(digits))
    const figures = {
      stdio: round(stdio?.median, 3),
      http: round(http?.median, 3),
      listMs: round(added.median, 2),
      againMs: round(again.median, 0),
      usersMb: round(grown, 0),
    }
    process.stdout.write(`${JSON.stringify(figures)}\n`)
  }
}

const LABELS: Record<AgentName, string> = {
  process: 'in process',
  stdio: 'an MCP server over stdio',
  http: 'an MCP server over HTTP',
  many: 'the same, with a long list of tools',
}

const ratioOf = (sample: Sample | undefined): string =>
  sample ? `${sample.median.toFixed(2)} ± ${(sample.noise * sample.median).toFixed(2)}` : '-'

/** Milliseconds a turn of each agent, by round; the agents take turns at going first. */
async function timesOfTurns(sizes: { turns: number; rounds: number; bytes: number; tools: number }): Promise<Record<AgentName, number[]>> {
  const { turns, rounds, bytes, tools } = sizes
  const times: Record<AgentName, number[]> = { process: [], stdio: [], http: [], many: [] }
  const { pawl, address, namespace, stop } = await startServed(bytes, tools)
  const connection = await Connection.connect({ address })
  const client = new Client({ connection, namespace })
  try {
    for (const name of AGENTS) await msPerTurn({ client, pawl }, name, WARM_UP_TURNS)
    for (let round = 0; round < rounds; round++) {
      const first = round % AGENTS.length
      for (const name of [...AGENTS.slice(first), ...AGENTS.slice(0, first)])
        times[name].push(await msPerTurn({ client, pawl }, name, turns))
    }
    return times
  } finally {
    await connection.close()
    await stop()
  }
}

/** A worker with one executor, and the servers over HTTP. */
async function startServed(bytes: number, tools: number) {
  const stack = await startStack()
  const server = fork(fileURLToPath(new URL('mcp/http.mjs', import.meta.url)), [String(bytes), String(tools)], { execArgv: [] })
  const [port] = (await once(server, 'message')) as [number]
  Object.assign(process.env, { BENCH_RESULT_BYTES: String(bytes), BENCH_MCP_URL: `http://127.0.0.1:${port}` })
  const { temporalAddress: address, namespace, databaseUrl: postgres } = stack
  const common = { temporal: { address, namespace }, postgres, taskQueue: TASK_QUEUE }
  const worker = await startWorker({ ...common, module: fileURLToPath(new URL('mcp/agents.mjs', import.meta.url)), processes: 1 })
  const pawl = await Pawl.connect(common)
  const stop = async (): Promise<void> => {
    await pawl.close()
    await worker.stop()
    server.disconnect()
    await stack.stop()
  }
  return { worker, pawl, address, namespace, stop }
}

/** Megabytes by which the connections of so many users to four servers make an executor grow. */
async function memoryOfUsers(users: number, bytes: number): Promise<number> {
  const { worker, pawl, stop } = await startServed(bytes, 0)
  const runAs = async (user: number): Promise<void> => {
    const handle = await pawl.session(undefined, { agent: 'users', context: { user } }).send('Look everywhere.')
    const { text } = await handle.result()
    if (text !== 'done') throw new Error(`The run of user ${user} ended with: ${text}`)
  }
  try {
    // What the first users load is not the connections'.
    await runAs(0)
    await sleep(SETTLE_MS)
    const [pid = Number.NaN] = worker.pids().executors
    const before = await memoryOf(pid)
    await Promise.all(Array.from({ length: users }, (_, index) => runAs(index + 1)))
    const after = await memoryOf(pid)
    return after.rss - before.rss
  } finally {
    await stop()
  }
}

/** Milliseconds from one turn's beginning to the next, by the server's clock. */
async function msPerTurn({ client, pawl }: { client: Client; pawl: Pawl }, agent: AgentName, turns: number): Promise<number> {
  const session = pawl.session(undefined, { agent })
  const { text } = await (await session.send(String(turns))).result()
  if (text !== 'done') throw new Error(`A run of the agent "${agent}" ended with: ${text}`)
  const begins = await turnsOf(client, `pawl:${session.id}`, 'callModel')
  const [first, last] = [begins[0], begins[turns]]
  if (!first || !last) throw new Error(`A run of ${turns} turns has ${begins.length} model calls instead of ${turns + 1}.`)
  return (last.atMs - first.atMs) / turns
}

/** Milliseconds from the death of a stdio server to its next answer, as an executor sees it. */
async function timesOfRestarts(deaths: number, bytes: number): Promise<number[]> {
  const quiet = (): void => undefined
  const log: Logger = { debug: quiet, info: quiet, warn: quiet, error: quiet }
  const ctx = { idempotencyKey: '', signal: new AbortController().signal, log, progress: quiet } as unknown as ToolContext
  const args = [fileURLToPath(new URL('mcp/stdio.mjs', import.meta.url)), String(bytes)]
  const source = mcp({ name: 'bench', transport: { type: 'stdio', command: process.execPath, args }, effects: { '*': 'read' } })
  const pidOf = async (): Promise<number> => {
    const tool = await source.find('bench__pid', log)
    const answer = (await tool?.execute?.({}, ctx)) as { content: { text: string }[] } | undefined
    return Number(answer?.content[0]?.text)
  }
  try {
    await source.tools(log)
    const times: number[] = []
    let pid = await pidOf()
    for (let death = 0; death < deaths; death++) {
      const began = performance.now()
      process.kill(pid, 'SIGKILL')
      pid = await untilAnswered(pidOf)
      times.push(performance.now() - began)
    }
    return times
  } finally {
    await source.close()
  }
}

/** A call that was sent before the death is noticed fails, and is repeated at once. */
async function untilAnswered(call: () => Promise<number>): Promise<number> {
  for (;;) {
    try {
      return await call()
    } catch (error) {
      if ((error as { retryable?: boolean }).retryable === false) throw error
    }
  }
}
