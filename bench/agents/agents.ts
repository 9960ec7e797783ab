// The agents of `agents.ts`: a root that calls children in parallel, and a child that answers after a while or calls one with an approval.
import { setTimeout as sleep } from 'node:timers/promises'
import { agentTool, defineAgent, defineTool, defineWorker, type ModelRequest } from 'pawl'
import { scripted } from 'pawl/testing'
import { z } from 'zod'

/** What a conversation does; its first message has it as JSON. */
export interface Scene {
  /** Turns of the root with a quick call before it answers. Default 0. */
  turns?: number
  /** How many children it then calls at once. */
  calls: number
  /** How long a child's model takes. */
  ms: number
  /** Whether the child calls an agent whose tool needs an approval. */
  approval?: boolean
}

const sceneIn = ({ messages }: ModelRequest): Scene => JSON.parse(messages[0]?.content as string) as Scene
const use = (name: string, input: object, n = 0) => ({ type: 'tool_use' as const, id: `toolu_${name}_${n}`, name, input: input as never })
const hasResult = ({ messages }: ModelRequest): boolean => messages.length > 1

const look = defineTool({
  name: 'look',
  description: 'Looks.',
  input: z.object({ turn: z.number() }),
  effect: 'idempotent',
  execute: () => 'seen',
})

const sign = defineTool({
  name: 'sign',
  description: 'Signs.',
  input: z.object({}),
  effect: 'idempotent',
  approval: true,
  execute: () => Date.now(),
})

const signer = defineAgent({
  name: 'signer',
  instructions: '',
  model: scripted((request) => (hasResult(request) ? 'signed' : [use('sign', {})])),
  tools: [sign],
})

const child = defineAgent({
  name: 'child',
  instructions: '',
  model: scripted(async (request, { signal }) => {
    const at = Date.now()
    const { ms, approval } = sceneIn(request)
    if (approval && !hasResult(request)) return [use('signer', { message: 'sign' })]
    await sleep(ms, undefined, { signal })
    return `began at ${at}`
  }),
  tools: [agentTool(signer)],
})

const root = defineAgent({
  name: 'root',
  instructions: '',
  limits: { maxTurns: 1_000 },
  model: scripted((request) => {
    const { turns = 0, calls } = sceneIn(request)
    if (request.turn <= turns) return [use('look', { turn: request.turn })]
    if (calls === 0 || request.turn > turns + 1) return 'done'
    // Different questions, because equal ones have one answer.
    return Array.from({ length: calls }, (_, n) => use('child', { message: JSON.stringify({ ...sceneIn(request), n }) }, n))
  }),
  tools: [look, agentTool(child)],
})

export default defineWorker({ agents: [root, child, signer] })
