// The view that instructions and sections are rendered from, and pawl's ready-made sections.
import type { Plan, PlanStep } from '../session/built-in-tools/plan.ts'
import type { IncompleteWork, Progress } from '../session/watching/progress.ts'
import type { SessionView } from '../session/watching/view.ts'
import type { AgentContext, AnyServices, AnySlices } from './tool.ts'
import type { Json } from '../session/json.ts'

/** The view of a session that a prompt is rendered from. It is the same whether or not the session was resumed. */
export interface PromptView<L = AnySlices> {
  /** A copy of the session's state, with its progress. */
  readonly state: SessionView & { readonly progress: Progress }
  /** The plan; null if there is none. */
  readonly plan: Plan | null
  /** The values of the agent's slices, by name; frozen. */
  readonly slices: L
  /** The text of each block that the agent declares, by name; an empty string if the block has none. */
  readonly memory: Readonly<Record<string, string>>
  /** The progress so far: `incomplete` lists what is planned or started and has not ended. */
  readonly progress: Progress
}

/** A part of the prompt that may change with every call. Empty text is left out. */
export type Section<C = Json, S = AnyServices, L = AnySlices> = (
  view: PromptView<L>,
  ctx: AgentContext<C, S, L>,
) => string | Promise<string>

/** Selects the tools of a model call, by name. */
export type ToolSelection<C = Json, S = AnyServices, L = AnySlices> = (
  view: PromptView<L>,
  ctx: AgentContext<C, S, L>,
) => readonly string[] | Promise<readonly string[]>

/** Ready-made sections for an agent's `sections`. */
export const sections = {
  /** The plan with all details of its steps; empty without a plan. Needs `plan`. */
  plan: ({ plan }: Pick<PromptView, 'plan'>): string =>
    plan ? ['# Plan', `Objective: ${plan.objective}`, ...plan.steps.map(lineOfStep)].join('\n') : '',
  /** The text of all blocks. Needs `memory`. */
  memory: ({ memory }: Pick<PromptView, 'memory'>): string =>
    [
      '# Memory',
      ...Object.entries(memory).map(([block, text]) => `<block name="${block}">\n${text === '' ? '(empty)' : text}\n</block>`),
    ].join('\n'),
  /** A short list of what is done and what is not. Needs `plan`. */
  progress: ({ plan, progress }: Pick<PromptView, 'plan' | 'progress'>): string =>
    ['# Progress', ...(plan ? shortPlan(plan) : [NO_PLAN]), ...openCalls(progress.incomplete)].join('\n'),
} as const

const NO_PLAN = 'No progress yet. Create a plan to get started.'

function lineOfStep({ id, title, status, postconditions, evidence }: PlanStep, index: number): string {
  return [
    `${index + 1}. [${words(status)}] ${id}: ${title}`,
    ...(postconditions === undefined ? [] : [`   To check: ${postconditions}`]),
    ...(evidence === undefined ? [] : [`   Evidence: ${evidence}`]),
  ].join('\n')
}

function shortPlan({ objective, steps }: Plan): string[] {
  return [
    `Objective: ${objective}`,
    ...steps.map(({ title, status }) => (status === 'done' ? `✓ ${title}` : `${title} (${words(status)})`)),
  ]
}

function openCalls(incomplete: readonly IncompleteWork[]): string[] {
  const calls = incomplete.flatMap((work) => (work.kind === 'call' ? [`- ${work.tool} (${work.callId}): ${words(work.status)}`] : []))
  return calls.length > 0 ? ['Calls without a known outcome:', ...calls] : []
}

const words = (status: string): string => status.replaceAll('_', ' ')
