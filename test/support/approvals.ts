// An agent whose tools need a person or a client: approvals, answers from outside, outcomes that only a person can know. Each session plays
// its scene.
import { randomUUID } from 'node:crypto'
import { type Agent, type AgentOptions, defineAgent, defineTool, type ModelRequest, type ToolContext, type Verdict } from 'pawl'
import type { Pawl, RunHandle, SettledRun, SessionHandle, SessionOptions } from 'pawl/client'
import { scripted, type ScriptedAnswer } from 'pawl/testing'
import { z } from 'zod'
import { inOrder, type Input, use } from './scenes.ts'
import type { ApprovalContext, ApprovalNeed } from '../../src/agent/tool.ts'

/** What one session's model and tools do. */
export interface ApprovalScene {
  model: (request: ModelRequest) => ScriptedAnswer | Promise<ScriptedAnswer>
  /** Of `pay`. */
  approval?: (input: Input, ctx: ApprovalContext) => ApprovalNeed | Promise<ApprovalNeed>
  /** Of any tool that is executed. */
  body?: (tool: string, input: Input, ctx: ToolContext) => unknown
  /** Of `wire`. */
  verify?: (input: Input, ctx: ToolContext) => Verdict<unknown> | Promise<Verdict<unknown>>
}

/** One entry into a body, or into `verify`. */
export interface Entered {
  tool: string
  input: Input
  attempt: number
  key: string
  callId: string
}

/** A session, and what its model and tools were called with. */
export interface ApprovalSession {
  readonly id: string
  readonly session: SessionHandle
  readonly requests: ModelRequest[]
  readonly entries: Entered[]
  /** The tools whose bodies were entered, in order, with their input. */
  entered(): string[]
}

/** Plays such scenes with one agent. */
export interface ApprovalStage {
  readonly agent: Agent
  play(pawl: Pawl, scene: ApprovalScene, options?: SessionOptions & { id?: string }): ApprovalSession
}

/** A model that asks for these calls in one answer, and then has nothing more to say. */
export const once = (...calls: Parameters<typeof use>[]) => inOrder(calls.map((call) => use(...call)))

/** How long requests stay open, for the tools whose requests expire within a test. */
export const SHORT_MS = 400
/** The same for tests that do something before the requests expire, even on a busy machine. */
const LONGER_MS = 4_000

const WAITED = { timeout: 30_000 }

/** The calls that the run waits for. */
export async function pendingOf(run: RunHandle): Promise<(SettledRun & { status: 'waiting' })['pending']> {
  const settled = await run.settled(WAITED)
  if (settled.status !== 'waiting') throw new Error(`the run does not wait: ${JSON.stringify(settled)}`)
  return settled.pending
}

/** The digest of a call that awaits approval. */
export async function digestOf(run: RunHandle, callId: string): Promise<string> {
  const digest = (await pendingOf(run)).find((call) => call.callId === callId)?.digest
  if (digest === undefined) throw new Error(`${callId} awaits no approval`)
  return digest
}

const isBooking = (result: unknown): boolean => typeof result === 'object' && result !== null && 'id' in result

/** A stage; `options` are the agent's, except for model and tools. */
export function approvalStage(options: Partial<AgentOptions> = {}): ApprovalStage {
  const scenes = new Map<string, { scene: ApprovalScene; requests: ModelRequest[]; entries: Entered[] }>()

  function played(sessionId: string): { scene: ApprovalScene; requests: ModelRequest[]; entries: Entered[] } {
    const found = scenes.get(sessionId)
    if (!found) throw new Error(`no scene for session ${sessionId}`)
    return found
  }

  function note(tool: string, input: Input, ctx: ToolContext): ApprovalScene {
    const { scene, entries } = played(ctx.sessionId)
    entries.push({ tool, input, attempt: ctx.attempt, key: ctx.idempotencyKey, callId: ctx.callId })
    return scene
  }

  const input = z.object({ what: z.string(), n: z.number().optional() })
  const about = (name: string) => ({ name, description: `${name} something`, input })
  const acting = (name: string) => ({
    ...about(name),
    retry: { maxRetries: 2, baseDelay: 10 },
    execute: async (given: Input, ctx: ToolContext) =>
      (await note(name, given, ctx).body?.(name, given, ctx)) ?? `${name} ${given.what} done`,
  })

  const agent = defineAgent({
    name: 'helped',
    instructions: 'Ask people.',
    retry: { maxRetries: 2, baseDelay: 10 },
    ...options,
    model: scripted((request) => {
      const { scene, requests } = played(request.sessionId)
      requests.push(structuredClone(request))
      return scene.model(request)
    }),
    tools: [
      defineTool({ ...acting('look'), effect: 'read' }),
      defineTool({ ...acting('peek'), effect: 'read', approval: true }),
      defineTool({ ...acting('put'), effect: 'idempotent' }),
      defineTool({
        ...acting('pay'),
        effect: 'external',
        approval: (given, ctx) => played(ctx.sessionId).scene.approval?.(given, ctx) ?? true,
      }),
      defineTool({ ...acting('grant'), effect: 'external', approval: { reason: 'It is final.', approvers: { role: 'finance' } } }),
      defineTool({ ...acting('hurry'), effect: 'external', approval: true, approvalTimeout: `${SHORT_MS}ms` }),
      defineTool({ ...acting('linger'), effect: 'external', approval: true, approvalTimeout: `${LONGER_MS}ms` }),
      defineTool({ ...acting('calm'), effect: 'external', approval: true, approvalTimeout: '1h' }),
      defineTool({ ...acting('strict'), effect: 'external', approval: true, approvalTimeout: `${SHORT_MS}ms`, onExpiry: 'error' }),
      defineTool({
        ...acting('wire'),
        effect: 'external',
        verifyTimeout: '500ms',
        verifyRetries: 1,
        verify: async (given, ctx) => (await note('verify', given, ctx).verify?.(given, ctx)) ?? { happened: 'unknown' },
      }),
      defineTool({ ...acting('post'), effect: 'external' }),
      defineTool({ ...acting('book'), effect: 'external', output: z.unknown().refine(isBooking, 'a booking, such as { id: "B-1" }') }),
      defineTool({ ...acting('mail'), effect: 'external', onUnknown: 'tell_model' }),
      defineTool({ ...about('form'), effect: 'external', execute: 'client', output: z.object({ agreed: z.boolean() }) }),
      defineTool({ ...about('ask'), effect: 'read', execute: 'client' }),
      defineTool({ ...about('quick'), effect: 'read', execute: 'client', timeout: `${SHORT_MS}ms` }),
      defineTool({ ...about('soon'), effect: 'read', execute: 'client', timeout: `${LONGER_MS}ms` }),
      defineTool({
        ...about('sign'),
        effect: 'external',
        execute: 'client',
        approval: true,
        toModel: (signature) => `signed as ${JSON.stringify(signature)}`,
        effectId: (signature) => String(signature),
      }),
    ],
  }) as Agent

  return {
    agent,
    play(pawl, scene, { id = `p-${randomUUID()}`, ...more } = {}) {
      const record = { scene, requests: [], entries: [] as Entered[] }
      scenes.set(id, record)
      return {
        id,
        session: pawl.session(id, { agent: agent.name, ...more }) as SessionHandle,
        requests: record.requests,
        entries: record.entries,
        entered: () => record.entries.map(({ tool, input: { what } }) => `${tool} ${what}`),
      }
    },
  }
}
