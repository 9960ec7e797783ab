// `npm run bench -- peers`: one and the same conversation in the bare Temporal loop, in pawl and in other durable runtimes: the time of a
// turn, the bytes stored, and what a kill in the middle of a tool call costs.
import { mkdtemp, mkdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client, Connection } from '@temporalio/client'
import { type Stack, startStack } from 'pawl/testing'
import { findNode, prepare, versionsOf } from './peers/install.ts'
import { bytesOf, idOf, type Kill, killOnce, type Measured, summaryOf, type Timing, timeTurns, warmUp } from './peers/measure.ts'
import { readPeersOptions, type PeersOptions } from './peers/options.ts'
import { plot } from './peers/plot.ts'
import { freePorts } from './peers/ports.ts'
import { hasService, type Program, startProgram } from './peers/program.ts'
import { jsonLine, lineOf, type Outcome, report, type Run } from './peers/report.ts'
import { type Row, ROWS } from './peers/rows.ts'
import { serverVersions } from './peers/servers.ts'
import type { Conversation, Setting } from './peers/setting.ts'
import { storedBytes } from './peers/stored.ts'
import { historyBytesOf } from './turn/history.ts'

const PORTS = 4

/** What the rows share. */
interface Bench {
  options: PeersOptions
  stack: Stack
  client: Client
  node: string
  folder: string
  floor: Side
}

/** A row whose program runs. */
interface Side {
  program: Program
  setting: Setting
}

/** Runs the benchmark. */
export async function run(args: string[]): Promise<void> {
  const options = readPeersOptions(args)
  const say = (line: string) => void process.stderr.write(`${line}\n`)
  const outcomes: Outcome[] = []
  const done = await withBench(options, async (bench) => {
    for (const row of options.rows) {
      say(`${row.title} …`)
      const outcome = await outcomeOf(bench, row)
      say('failed' in outcome ? `${row.title}: ${outcome.failed}` : lineOf(outcome))
      outcomes.push(outcome)
    }
    return { date: new Date().toISOString().slice(0, 10), servers: await serverVersions(bench), options }
  })
  const all: Run = { ...done, outcomes }
  if (options.plot !== undefined) await writeFile(options.plot, plot(all))
  process.stdout.write(options.output === 'json' ? `${jsonLine(all)}\n` : `${report(all)}\n`)
}

/** Measures a row. A peer that fails has a line that says why. */
async function outcomeOf(bench: Bench, row: Row): Promise<Outcome> {
  try {
    await prepare(row.peer, bench.node)
    const versions = await versionsOf(row)
    try {
      return { row, versions, measured: await measure(bench, row) }
    } catch (error) {
      return { row, versions, failed: messageOf(error) }
    }
  } catch (error) {
    return { row, versions: [], failed: messageOf(error) }
  }
}

async function measure(bench: Bench, row: Row): Promise<Measured> {
  const { options, floor } = bench
  const setting = await settingFor(bench, row)
  const service = hasService(row.peer) ? startProgram(bench.node, row.peer, 'service', setting) : undefined
  const start = (resume?: Conversation) => startProgram(bench.node, row.peer, 'main', { ...setting, ...(resume && { resume }) })
  let program = start()
  try {
    await warmUp(program)
    const timings: Timing[] = []
    const floors: Timing[] = []
    for (let round = 0; round < options.rounds; round += 1) {
      floors.push(await timeTurns(floor.program, floor.setting, { id: idOf(), turns: options.turns }))
      timings.push(await timeTurns(program, setting, { id: idOf(), turns: options.turns }))
    }
    const bytes = await bytesOf(
      async () => {
        const { workflowId, stored = 0 } = await program.converse({ id: idOf(), turns: options.turns })
        return stored + (workflowId === undefined ? 0 : await historyBytesOf(bench.client, workflowId))
      },
      () => storedBytes(setting.databaseUrl),
    )
    const killed = async (what: 'worker' | 'tool') => {
      const kills: Kill[] = []
      while (kills.length < options.kills) {
        await program.ready()
        const one = await killOnce(program, setting, start, what)
        kills.push(one.kill)
        program = one.program
      }
      return kills
    }
    const toolKills = row.toolProcess ? await killed('tool') : []
    return summaryOf(timings, floors, { bytes, toolKills, kills: await killed('worker') })
  } finally {
    await program.stop()
    await service?.stop()
  }
}

async function settingFor({ stack, folder, options }: Pick<Bench, 'stack' | 'folder' | 'options'>, row: Row): Promise<Setting> {
  const own = join(folder, idOf())
  await mkdir(own)
  return {
    temporalAddress: stack.temporalAddress,
    namespace: stack.namespace,
    databaseUrl: await stack.createDatabase(),
    folder: own,
    variant: row.variant,
    resultBytes: options.resultBytes,
    ports: await freePorts(PORTS),
  }
}

async function withBench<T>(options: PeersOptions, use: (bench: Bench) => Promise<T>): Promise<T> {
  const node = await findNode()
  const stack = await startStack()
  const folder = await mkdtemp(join(tmpdir(), 'pawl-bench-'))
  const connection = await Connection.connect({ address: stack.temporalAddress })
  const [row] = ROWS
  if (!row) throw new Error('There are no rows.')
  const setting = await settingFor({ stack, folder, options }, row)
  const program = startProgram(node, row.peer, 'main', setting)
  try {
    await warmUp(program)
    const client = new Client({ connection, namespace: stack.namespace })
    return await use({ options, stack, client, node, folder, floor: { program, setting } })
  } finally {
    await program.stop()
    await connection.close()
    await stack.stop()
    await rm(folder, { recursive: true })
  }
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))
