// Renders the prompt of a model call: the system prompt from the instructions, and the sections that may change with every call.
import type { Agent } from '../../agent/agent.ts'
import type { PromptView } from '../../agent/prompt.ts'
import type { AgentContext } from '../../agent/tool.ts'
import type { ContentBlock, Message } from '../../session/content.ts'
import { systemNote } from '../../session/transcript/system-note.ts'
import { defined } from '../../session/defined.ts'
import { shortHash } from '../../session/digest.ts'
import { copyOf } from '../../session/json.ts'
import { contentOf } from '../../session/built-in-tools/memory.ts'
import { workOf } from '../../session/watching/progress.ts'
import { viewOf } from '../../session/watching/view.ts'
import { ownContext } from '../agent-context.ts'
import type { FoldedSession } from '../session-views.ts'

export interface Prompt {
  system: string
  /** The text of the sections; empty if there are none. */
  volatile: string
  /** The names of the active tools, in the order of their declaration; absent if the agent does not select them. */
  activeTools?: string[]
  /** Digest of all that. It is recorded so that changes of the prompt are visible even though the prompt is not stored. */
  digest: string
}

/** Renders the agent's prompt at this point of the session. */
export async function renderPrompt(agent: Agent, { state }: Pick<FoldedSession, 'state'>, ctx: AgentContext): Promise<Prompt> {
  const view = viewFor(agent, state, ctx)
  const instructions = typeof agent.instructions === 'string' ? agent.instructions : await agent.instructions(view(), ownContext(ctx))
  const system = [instructions, agent.plan?.guidance].filter(Boolean).join('\n\n')
  const texts: string[] = []
  for (const [index, section] of agent.sections.entries()) {
    const text: unknown = await section(view(), ownContext(ctx))
    if (typeof text !== 'string') {
      throw new TypeError(
        `sections[${index}] of agent "${agent.name}" returned ${text === null ? 'null' : `a value of type ${typeof text}`}: return a string.`,
      )
    }
    if (text.trim() !== '') texts.push(text.trim())
  }
  const unavailable = agent.sources.filter((source) => source.problem() !== undefined).map(({ name }) => `"${name}"`)
  if (unavailable.length > 0)
    texts.push(`The tools of ${unavailable.join(', ')} are unavailable at the moment. If the request needs them, say so.`)
  const volatile = texts.length > 0 ? [HEADING, ...texts].join('\n\n') : ''
  const activeTools = await activeToolsNow(agent, { state }, ctx)
  const digest = shortHash(JSON.stringify([system, volatile, ...(activeTools ? [activeTools] : [])]))
  return { system, volatile, ...defined({ activeTools }), digest }
}

/** The names of the tools that the agent selects at this point of the session; undefined if it does not select them. */
export async function activeToolsNow(
  agent: Agent,
  { state }: Pick<FoldedSession, 'state'>,
  ctx: AgentContext,
): Promise<string[] | undefined> {
  return agent.activeTools && namesOf(agent, await agent.activeTools(viewFor(agent, state, ctx)(), ownContext(ctx)))
}

/** The selected tools in the order of their declaration, so that equal selections are equal requests. */
function namesOf({ name: agent, tools, sources, providerTools }: Agent, selected: unknown): string[] {
  if (!Array.isArray(selected)) {
    throw new TypeError(
      `activeTools of agent "${agent}" returned ${selected === null ? 'null' : `a value of type ${typeof selected}`}: return a list of names.`,
    )
  }
  // A tool of a server that cannot be read is not there now.
  const own = [...new Set([...tools.keys(), ...providerTools.map(({ name }) => name)])]
  const mayExist = (name: string): boolean => own.includes(name) || sources.some((source) => source.owns(name))
  const unknown: unknown = selected.find((name) => typeof name !== 'string' || !mayExist(name))
  if (unknown !== undefined) {
    throw new TypeError(
      `activeTools of agent "${agent}" returned ${JSON.stringify(unknown)}, but its tools are: ${own.join(', ') || 'none'}.`,
    )
  }
  const isAsked = (name: string): boolean =>
    sources.some(({ askTool, owns }) => askTool === name && selected.some((one: string) => owns(one)))
  return own.filter((name) => selected.includes(name) || isAsked(name))
}

/** The agent as one model call sees it: with the active tools only. */
export function withActiveTools(agent: Agent, activeTools: readonly string[] | undefined): Agent {
  if (!activeTools) return agent
  return {
    ...agent,
    tools: new Map([...agent.tools].filter(([name]) => activeTools.includes(name))),
    providerTools: agent.providerTools.filter(({ name }) => activeTools.includes(name)),
  }
}

/** The sections are in a user message, but the user did not write them. */
const HEADING = systemNote('the current status')

/**
 * Adds the texts that belong only to this request to the end of the last user message: the sections, then the hooks' texts. A model that
 * continues an interrupted answer gets no sections, and the hooks' texts go into the message before the answer.
 */
export function withVolatile(
  messages: readonly Message[],
  sections: string,
  ofHooks: readonly string[] = [],
): { messages: Message[]; volatileBlocks?: number } {
  const at = messages.findLastIndex(({ role }) => role === 'user')
  const isLast = at === messages.length - 1
  const message = messages[at]
  const texts = [...(sections !== '' && isLast ? [sections] : []), ...ofHooks]
  if (texts.length === 0 || message?.role !== 'user') return { messages: [...messages] }
  const said: ContentBlock[] = typeof message.content === 'string' ? [{ type: 'text', text: message.content }] : message.content
  const content = [...said, ...texts.map((text) => ({ type: 'text' as const, text }))]
  return { messages: messages.with(at, { role: 'user', content }), ...(isLast && { volatileBlocks: texts.length }) }
}

/** Returns a factory of views. Each call of user code gets its own, so that none can change what another one sees. */
function viewFor({ memory }: Agent, state: FoldedSession['state'], { slices }: AgentContext): () => PromptView {
  return () => {
    const progress = copyOf(workOf(state))
    return {
      state: { ...copyOf(viewOf(state)), progress },
      plan: copyOf(state.plan?.current ?? null),
      slices,
      memory: Object.fromEntries(memory.map(({ block }) => [block, contentOf(state.memory?.current, block)])),
      progress,
    }
  }
}
