// What a turn does, on both sides: a model that asks for a tool until its turns are over, and a tool that answers with filler text.
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

export const TASK_QUEUE = { floor: 'bench-floor', pawl: 'bench-pawl' } as const

/** The activity that begins a turn. */
export const MODEL_ACTIVITY = { floor: 'model', pawl: 'callModel' } as const
export const AGENT = 'bench'

/** What pawl's tool may do: BENCH_EFFECT in the worker processes. Reads ride on the model call once the tool has proved to be quick. */
export const EFFECTS = ['read', 'idempotent', 'external'] as const
export type Effect = (typeof EFFECTS)[number]

/** A workflow interceptor that disables eager dispatch, for either side. */
export const NO_EAGER = fileURLToPath(new URL('./no-eager.ts', import.meta.url))

/** Bytes of a tool's result: BENCH_RESULT_BYTES in the worker processes. */
const resultBytes = (): number => Number(process.env.BENCH_RESULT_BYTES)

/** The model's small message: one call of the tool. */
export const askFor = (turn: number) => [{ type: 'tool_use' as const, id: `toolu_${turn}`, name: 'fill', input: { turn } }]

/** The tool's result. Asynchronous, as every tool is. */
export async function fill(): Promise<string> {
  await sleep(0)
  return 'x'.repeat(resultBytes())
}
