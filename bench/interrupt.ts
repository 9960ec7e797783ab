// `npm run bench -- interrupt`: from the call of `session.interrupt()` to the abort signals of the calls in progress, and to the run's end.
import { loadavg } from 'node:os'
import { parseArgs } from 'node:util'
import { type HeldStep, type InterruptTimes, withInterruptBench } from './interrupt/rig.ts'
import { quantile } from './statistics.ts'

/** What is in progress when the interrupt comes. */
const HELD: readonly HeldStep[] = ['model', 'tool', 'reads', 'riding']
const NAMES: Record<HeldStep, string> = {
  model: 'a model call',
  tool: 'a tool call',
  reads: 'five parallel reads',
  riding: 'a riding read',
}

/** Runs the benchmark. */
export async function run(args: string[]): Promise<void> {
  const { values } = parseArgs({
    args,
    options: {
      interrupts: { type: 'string', default: '40' },
      workers: { type: 'string', default: '1,2' },
      json: { type: 'boolean', default: false },
    },
  })
  const results = []
  for (const workers of values.workers.split(',').map(Number)) {
    const measured = await withInterruptBench(workers, async (bench) => {
      const series = HELD.map((held) => ({ held, interrupts: [] as InterruptTimes[] }))
      // In turn, so that other load on the machine affects all of them equally.
      for (let n = 0; n < Number(values.interrupts); n++) for (const one of series) one.interrupts.push(await bench.interrupt(one.held))
      return series
    })
    results.push(...measured.map(({ held, interrupts }) => ({ workers, held, ...summaryOf(interrupts) })))
  }
  if (values.json) return console.log(JSON.stringify({ bench: 'interrupt', results }))
  for (const { workers, held, signal, end } of results) {
    const what = `${workers} ${workers === 1 ? 'worker' : 'workers'}, ${NAMES[held]}`
    console.log(`${what.padEnd(36)} signal p50 ${signal.p50} ms, p95 ${signal.p95} ms; run over p50 ${end.p50} ms, p95 ${end.p95} ms`)
  }
  console.log(`${values.interrupts} interrupts each, load average ${loadavg()[0]?.toFixed(1)}`)
}

function summaryOf(interrupts: readonly InterruptTimes[]) {
  const of = (ms: number[]) => ({ p50: Math.round(quantile(ms, 0.5)), p95: Math.round(quantile(ms, 0.95)) })
  return { signal: of(interrupts.map(({ signalMs }) => signalMs)), end: of(interrupts.map(({ endMs }) => endMs)) }
}
