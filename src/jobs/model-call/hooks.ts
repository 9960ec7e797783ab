// The hooks of a model call: those that are due before its request, and those for its answer.
import type { Agent } from '../../agent/agent.ts'
import type { HookInputs } from '../../agent/hook.ts'
import { callIdOf } from '../../session/ids.ts'
import type { Resolution } from '../../session/call-facts.ts'
import { textOf } from '../../session/content.ts'
import { defined } from '../../session/defined.ts'
import { type HookPast, type HookPlace, hasRun, placesAfter, placesBefore } from '../../session/hooks/past.ts'
import { type HookOutcome, type HookRun, saidBy } from '../../session/hooks/hooks.ts'
import type { Json, JsonObject } from '../../session/json.ts'
import type { ModelAnswer } from '../../calls/jobs.ts'
import { hasTool, parseInput, type RequestedCall, type HookVerdict } from '../tool-call/resolve.ts'
import { type HookInvocation, hooksFor, type HookRunner, runHooks } from '../run-hooks.ts'
import type { FoldedSession } from '../session-views.ts'
import { hookFailed } from '../../session/failed-checks.ts'

/** Hooks that have run, and the answer of the hook that ends the run, if any. */
export interface HooksRan {
  runs: HookOutcome[]
  stopped?: HookRun
}

/** Runs the hooks that are due before the model call of a turn. @throws the signal's reason. */
export function runHooksBefore(runner: HookRunner, view: FoldedSession, turn: number): Promise<HooksRan> {
  return runPlaces(runner, view, placesBefore(view.hooks, turn))
}

/** Runs the hooks that are due after the last turn of a run. They can no longer stop the run. @throws the signal's reason. */
export async function runHooksAfter(runner: HookRunner, view: FoldedSession): Promise<HookOutcome[]> {
  return (await runPlaces(runner, view, placesAfter(view.hooks), 'to the end')).runs
}

async function runPlaces(runner: HookRunner, view: FoldedSession, places: HookPlace[][], until?: 'to the end'): Promise<HooksRan> {
  const runs: HookOutcome[] = []
  for (const together of places) {
    const callings = together.map((place) => ({ ...callingOf(view, place), among: together.length }))
    // Many outcomes share one result, but few have hooks.
    const due = callings.filter((calling) => hooksFor(runner.hooks, calling).length > 0)
    const ran = await Promise.all(due.map((calling) => runHooks(runner, { ...calling, among: due.length })))
    runs.push(...ran.flat())
    const stopped = runs.find((run) => saidBy(run, 'stop') !== undefined)
    if (stopped && !until) return { runs, stopped }
  }
  return { runs }
}

function callingOf({ state, transcript, hooks }: FoldedSession, place: HookPlace): HookInvocation {
  const { on, turn, outcome } = place
  const has = (hook: string): boolean => hasRun(hooks as HookPast, place, hook)
  if (outcome) {
    const { turn: _, ...input } = outcome
    return { on, turn, input: input as HookInputs['postToolUse'], callId: outcome.callId, tool: outcome.tool, hasRun: has }
  }
  const task = transcript.newestRun.took.get(state.current?.messageId ?? '')?.content ?? ''
  return { on, turn, input: on === 'agentStart' ? { task } : { turn }, hasRun: has }
}

/** Runs the hooks of `preToolUse` for a call that could be executed. @throws the signal's reason. */
export async function runHooksOfCall(
  runner: HookRunner,
  agent: Agent,
  call: RequestedCall,
  among: number,
): Promise<{ runs: HookOutcome[]; input: Json; verdict: HookVerdict }> {
  const { input, tool: name, turn } = call
  const none = { runs: [], input, verdict: {} }
  const tool = agent.tools.get(name)
  if (call.isCut || !hasTool(agent, name) || hooksFor(runner.hooks, { on: 'preToolUse', tool: name }).length === 0) return none
  if (typeof input !== 'object' || (tool && 'problem' in (await parseInput(tool, input)))) return none
  const callId = callIdOf(call.run, turn, call.index, call.generation)
  const runs = await runHooks(runner, {
    on: 'preToolUse',
    turn,
    input: { tool: name, args: input as JsonObject, callId },
    callId,
    tool: name,
    among,
    async problemWith(answer) {
      const parsed = tool && 'modify' in answer ? await parseInput(tool, answer.modify) : undefined
      return parsed && 'problem' in parsed ? parsed.problem : undefined
    },
  })
  const asking = runner.hooks.filter(({ onError }) => tool && tool.effect !== 'read' && onError === 'ask').map((hook) => hook.name)
  const failed = runs.find(({ error, hook }) => error && asking.includes(hook))
  const denied = runs.flatMap((run) => saidBy(run, 'deny') ?? [])[0]
  const changed = runs.flatMap((run) => saidBy(run, 'modify') ?? [])[0]
  return {
    runs,
    input: changed ?? input,
    verdict: {
      ...defined({ denied }),
      ...(changed && { own: input }),
      ...(failed?.error && { ask: hookFailed(failed.hook, failed.error.message) }),
    },
  }
}

/** Whether the model has nothing left to do: so that the run ends with this answer. */
export function isFinal({ content, stopReason }: Pick<ModelAnswer, 'content' | 'stopReason'>): boolean {
  return stopReason !== 'pause_turn' && content.every(({ type }) => type !== 'tool_use')
}

/**
 * The hooks of an answer that is about to end the run; none for any other answer. A text answer ends its turn. The turn of an output ends
 * with the result of its call, so its `turnEnd` comes later. @throws the signal's reason.
 */
export async function runHooksOfFinal(
  runner: HookRunner,
  answer: ModelAnswer,
  calls: readonly Resolution[],
  turn: number,
): Promise<HookOutcome[]> {
  const output = outputIn(answer, calls)
  if (output === undefined && !isFinal(answer)) return []
  const { content, stopReason } = answer
  const ended = output === undefined ? await runHooks(runner, { on: 'turnEnd', turn, input: { turn } }) : []
  const result = { text: textOf(content), content, stopReason, ...defined({ output }) }
  return [...ended, ...(await runHooks(runner, { on: 'agentStop', turn, input: { result } }))]
}

/** The output in an answer. If a hook has changed it, the resolution has it. */
function outputIn({ content }: ModelAnswer, [call]: readonly Resolution[]): Json | undefined {
  if (call?.builtIn !== 'output' || call.invalid) return undefined
  return call.output ?? content.find((block) => block.type === 'tool_use')?.input
}
