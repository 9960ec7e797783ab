// What a turn does, on both sides: a model that asks for a tool until it has had its turns, and a tool that answers with filling.
import { setTimeout as sleep } from 'node:timers/promises'

export const TASK_QUEUE = { floor: 'bench-floor', pawl: 'bench-pawl' } as const

/** Bytes of a tool's result: BENCH_RESULT_BYTES in the worker processes. */
export const resultBytes = (): number => Number(process.env.BENCH_RESULT_BYTES)

/** The model's small message: one call of the tool. */
export const askFor = (turn: number) => [{ type: 'tool_use' as const, id: `toolu_${turn}`, name: 'fill', input: { turn } }]

/** The tool's result. Asynchronous, as every tool is. */
export async function fill(): Promise<string> {
  await sleep(0)
  return 'x'.repeat(resultBytes())
}
