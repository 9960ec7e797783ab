// One agent for all tests of a file, whose model and tools do for each session what its test says, so one worker start is enough.
import { randomUUID } from 'node:crypto'
import {
  type Agent,
  type AgentOptions,
  defineAgent,
  defineTool,
  type Model,
  type ModelCallContext,
  type ModelRequest,
  type ToolContext,
  type ToolUseBlock,
  type Verdict,
} from 'pawl'
import type { Pawl, SessionHandle, SessionOptions } from 'pawl/client'
import { scripted, type ScriptedAnswer } from 'pawl/testing'
import { z } from 'zod'
import { defined } from '../../src/session/defined.ts'

/** What the tools are called with. */
export interface Input {
  what: string
  n?: number | undefined
}

type Body = (input: Input, ctx: ToolContext) => unknown

/** What one session's model and tools do. */
export interface Scene {
  model?: (request: ModelRequest, ctx: ModelCallContext) => ScriptedAnswer | Promise<ScriptedAnswer>
  /** Summarises a part of the conversation; by default with `the summary`. */
  summary?: (request: ModelRequest, ctx: ModelCallContext) => ScriptedAnswer | Promise<ScriptedAnswer>
  /** A `read`. */
  look?: Body
  /** An `idempotent` tool. */
  put?: Body
  /** An `external` tool with `verify`. */
  pay?: Body
  verify?: (input: Input, ctx: ToolContext) => Verdict<unknown> | Promise<Verdict<unknown>>
  /** An `external` tool without `verify`. */
  wire?: Body
}

/** One entry into a tool's body. */
export interface Entry {
  tool: string
  input: Input
  attempt: number
  key: string
  callId: string
}

/** A session and what happened in it. */
export interface Played {
  readonly id: string
  readonly session: SessionHandle
  /** Every request that the model was given, in order. */
  readonly requests: ModelRequest[]
  /** Every request for a summary, in order. */
  readonly summaries: ModelRequest[]
  /** Every entry into a body (and into `verify`), in order. */
  readonly entries: Entry[]
  /** How often each body was entered. */
  count(tool: string): number
}

/** Plays scenes with one agent. */
export interface Stage {
  readonly agent: Agent
  /** Sets the scene for a new session. */
  play(pawl: Pawl, scene: Scene, options?: SessionOptions & { id?: string }): Played
}

const RETRY = { maxRetries: 2, baseDelay: 10 }

/** A stage; `options` are the agent's, except for model and tools, and `ofModel` what the model says about itself. */
export function stage(options: Partial<AgentOptions> = {}, ofModel: Partial<Model> = {}): Stage {
  type SceneRecord = Pick<Played, 'requests' | 'summaries' | 'entries'> & { scene: Scene }
  const scenes = new Map<string, SceneRecord>()

  function played(sessionId: string): SceneRecord {
    const found = scenes.get(sessionId)
    if (!found) throw new Error(`no scene for session ${sessionId}`)
    return found
  }

  function enter(tool: 'look' | 'put' | 'pay' | 'wire', input: Input, ctx: ToolContext): unknown {
    const { scene, entries } = played(ctx.sessionId)
    entries.push({ tool, input, attempt: ctx.attempt, key: ctx.idempotencyKey, callId: ctx.callId })
    return scene[tool]?.(input, ctx) ?? `${tool} done`
  }

  const input = z.object({ what: z.string(), n: z.number().optional() })
  const tool = (name: 'look' | 'put' | 'pay' | 'wire') =>
    ({
      name,
      description: `${name} something`,
      input,
      retry: RETRY,
      execute: (given: Input, ctx: ToolContext) => enter(name, given, ctx),
    }) as const
  const agent = defineAgent({
    name: 'player',
    instructions: 'Play.',
    retry: RETRY,
    ...options,
    model: {
      ...scripted((request, ctx) => {
        const { scene, requests, summaries } = played(request.sessionId)
        const isSummary = request.purpose === 'compaction'
        ;(isSummary ? summaries : requests).push(structuredClone(request))
        return isSummary ? (scene.summary?.(request, ctx) ?? 'the summary') : (scene.model?.(request, ctx) ?? 'done')
      }),
      ...ofModel,
    },
    tools: [
      defineTool({ ...tool('look'), effect: 'read' }),
      defineTool({ ...tool('put'), effect: 'idempotent' }),
      defineTool({ ...tool('wire'), effect: 'external', onUnknown: 'tell_model' }),
      defineTool({
        ...tool('pay'),
        effect: 'external',
        onUnknown: 'tell_model',
        settleAfter: 0,
        verify: (given, ctx) => {
          const { scene, entries } = played(ctx.sessionId)
          entries.push({ tool: 'verify', input: given, attempt: ctx.attempt, key: ctx.idempotencyKey, callId: ctx.callId })
          return scene.verify?.(given, ctx) ?? { happened: 'unknown' }
        },
      }),
    ],
  })
  return {
    agent: agent as Agent,
    play(pawl, scene, { id = `s-${randomUUID()}`, ...more } = {}) {
      const record = { scene, requests: [], summaries: [], entries: [] as Entry[] }
      scenes.set(id, record)
      return {
        id,
        session: pawl.session(id, { agent: agent.name, ...more }) as SessionHandle,
        requests: record.requests,
        summaries: record.summaries,
        entries: record.entries,
        count: (name) => record.entries.filter((entry) => entry.tool === name).length,
      }
    },
  }
}

/** A script that returns its answers one after another, by how many the transcript already has. */
export function inOrder(
  ...answers: readonly (ScriptedAnswer | ((request: ModelRequest) => ScriptedAnswer))[]
): (request: ModelRequest) => ScriptedAnswer {
  return (request) => {
    const answer = answers[answersIn(request)] ?? 'nothing more to say'
    return typeof answer === 'function' ? answer(request) : answer
  }
}

/** A model's request to run a tool. The id means nothing to pawl. */
export function use(name: string, what: string, n?: number): ToolUseBlock {
  return { type: 'tool_use', id: `toolu_${name}`, name, input: { what, ...defined({ n }) } }
}

/** How many answers the model has given so far. */
export function answersIn({ messages }: ModelRequest): number {
  return messages.filter((message) => message.role === 'assistant').length
}

/** What users said, as the model sees it. */
export function saidIn(request: ModelRequest): string[] {
  return textsIn(request).filter((text) => !isNote(text))
}

/** The notes on effects that the transcript no longer shows. */
export function notesIn(request: ModelRequest): string[] {
  return textsIn(request).filter(isNote)
}

const isNote = (text: string): boolean => text.startsWith('[Note from the system')

function textsIn({ messages }: ModelRequest): string[] {
  return messages.flatMap((message) => (message.role === 'user' && typeof message.content === 'string' ? [message.content] : []))
}

/** The newest word that a user said, for messages of a single word. Sections such as the plan may be blocks beside it. */
export function wordIn({ messages }: ModelRequest): string {
  const texts = messages.flatMap(({ role, content }) => {
    if (role !== 'user') return []
    return typeof content === 'string' ? [content] : content.flatMap((block) => (block.type === 'text' ? [block.text] : []))
  })
  return texts.findLast((text) => /^[a-z]+$/.test(text)) ?? ''
}

/** Whether the newest message has results of calls. */
export function hasResults({ messages }: ModelRequest): boolean {
  const content = messages.at(-1)?.content
  return Array.isArray(content) && content.some(({ type }) => type === 'tool_result')
}

/** The results of the newest turn's calls, as the model sees them. */
export function resultsIn({ messages }: ModelRequest): { id: string; content: unknown; isError: boolean }[] {
  const last = messages.findLast(
    (message) => Array.isArray(message.content) && message.content.some((block) => block.type === 'tool_result'),
  )
  if (!last || typeof last.content === 'string') return []
  return last.content.flatMap((block) =>
    block.type === 'tool_result' ? [{ id: block.tool_use_id, content: block.content, isError: block.is_error === true }] : [],
  )
}
