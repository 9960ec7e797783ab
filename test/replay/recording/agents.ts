// The agents of the recorded sessions. A message is a script such as `look a + set b / pay c`: the model's steps, and the calls of each
// step. A call's argument says what its first attempt does, so the messages decide how a session goes.
import { setTimeout as sleep } from 'node:timers/promises'
import {
  defineAgent,
  defineHook,
  defineTool,
  defineWorker,
  ModelError,
  ToolError,
  type Message,
  type Model,
  type ModelRequest,
  type ToolContext,
} from 'pawl'
import { scripted, type ScriptedAnswer } from 'pawl/testing'
import { z } from 'zod'

const HELD_MS = 700
const LINGERED_MS = 6_000

const input = z.object({ how: z.string() })
const common = { description: 'Does as it is told.', input, retry: { maxRetries: 1, baseDelay: 10 } }

async function act({ how }: z.infer<typeof input>, ctx: ToolContext): Promise<string> {
  switch (how) {
    case 'flaky':
      if (ctx.attempt === 1) throw new Error('not at the first attempt')
      break
    case 'broken':
      throw new ToolError('it is broken', { code: 'broken' })
    case 'never':
      throw new ToolError('it was refused', { code: 'refused', happened: false })
    case 'lost':
    case 'maybe':
      throw new Error('the reply was lost')
    case 'undone':
      if (ctx.attempt === 1) throw new Error('the reply was lost')
      break
    case 'die':
      if (ctx.attempt === 1) process.kill(process.pid, 'SIGKILL')
      break
    case 'hold':
      await sleep(HELD_MS, undefined, { signal: ctx.signal })
      break
    case 'linger':
      await sleep(LINGERED_MS, undefined, { signal: ctx.signal })
      break
    case 'milestone':
      ctx.milestone('half way')
      ctx.progress({ done: 1 })
      break
    case 'report':
      ctx.emit('reported', { attempt: ctx.attempt })
      break
    case 'costly':
      ctx.spend({ usd: 0.3, note: 'a search' })
      break
    case 'endless':
      await sleep(3_600_000, undefined, { signal: ctx.signal })
      break
  }
  return `${how} done`
}

const tools = [
  defineTool({ ...common, name: 'look', effect: 'read', execute: act }),
  defineTool({ ...common, name: 'set', effect: 'idempotent', execute: act, effectId: (result) => `effect of ${result}` }),
  defineTool({
    ...common,
    name: 'pay',
    effect: 'external',
    onUnknown: 'tell_model',
    execute: act,
    toModel: (result) => [
      {
        type: 'text',
        text: `paid: ${result}`,
      },
    ],
    verify: ({ how }) => {
      if (how === 'maybe') return { happened: 'unknown' }
      return how === 'undone' || how === 'die'
        ? { happened: false }
        : {
            happened: true,
            result: `${how} found`,
          }
    },
  }),
  /** Its calls may have ended before `verify` asks about them. */
  defineTool({
    ...common,
    name: 'post',
    effect: 'external',
    timeout: '1s',
    execute: act,
    verify: () => ({ happened: true, result: 'found' }),
  }),
  defineTool({ ...common, name: 'mail', effect: 'external', onUnknown: 'tell_model', execute: act }),
  /** Only a person can say how its calls ended. */
  defineTool({ ...common, name: 'wire', effect: 'external', execute: act }),
  defineTool({
    ...common,
    name: 'sign',
    effect: 'idempotent',
    approval: ({ how }) => (how === 'freely' ? false : `somebody has to look at ${how}`),
    approvalTimeout: '4s',
    execute: act,
  }),
  defineTool({ description: common.description, input, name: 'ask', effect: 'read', execute: 'client', timeout: '4s', output: z.string() }),
]

/** How texts from hooks begin. */
const OF_HOOKS = '[From the system'

/** The newest script, and how many of its steps the model has taken. */
function scriptOf(messages: readonly Message[]): { steps: string[]; made: number } {
  const at = messages.findLastIndex(({ role, content }) => role === 'user' && typeof content === 'string' && !content.startsWith(OF_HOOKS))
  const said = messages[at]?.content
  const steps = typeof said === 'string' ? said.split('/').map((step) => step.trim()) : []
  return { steps, made: messages.slice(at).filter((message) => message.role === 'assistant').length }
}

function answer({ messages, run, turn }: ModelRequest, attempt: number): ScriptedAnswer {
  const { steps, made } = scriptOf(messages)
  const step = steps[made]
  if (step === undefined) return `done in ${turn} turns`
  switch (step) {
    case 'overload':
      if (attempt === 1) throw new ModelError('overloaded_error', 'overloaded', { retryable: true, retryAfter: 10 })
      return 'no more overloaded'
    case 'fail':
      throw new ModelError('invalid_request_error', 'no model takes this', { retryable: false })
    case 'fail once':
      if (run === 1) throw new ModelError('invalid_request_error', 'no model takes this', { retryable: false })
      return 'it went well'
    case 'die':
      if (attempt === 1) process.kill(process.pid, 'SIGKILL')
      return 'alive again'
    case 'pause':
      return { content: [{ type: 'text', text: 'let me think' }], stopReason: 'pause_turn' }
    case 'think':
      return [
        { type: 'thinking', thinking: 'hm', signature: 'signed' },
        { type: 'text', text: 'thought' },
      ]
    case 'nothing':
      return []
  }
  if (!/^\w+ \w+( \+ |$)/.test(step)) return `you said: ${step}`
  return step.split(' + ').map((call, index) => {
    const [name = '', how = ''] = call.split(' ')
    return { type: 'tool_use', id: `toolu_${index}`, name, input: name === 'look' && how === 'misfit' ? { what: 1 } : { how } }
  })
}

const model = scripted((request, ctx) => answer(request, ctx.attempt))
const agent = { instructions: 'Do as you are told.', model, tools, retry: { maxRetries: 2, baseDelay: 10 } }

const hooks = [
  defineHook({
    on: 'agentStart',
    run({ task }, ctx) {
      ctx.emit('began', { attempt: ctx.attempt })
      return task === 'closed' ? { stop: 'out of hours' } : { appendContext: 'The customer is Ann.' }
    },
  }),
  defineHook({ on: 'turnStart', run: ({ turn }) => (turn === 1 ? { systemMessage: 'Be brief.' } : undefined) }),
  defineHook({ on: 'turnStart', run: ({ turn }) => (turn === 2 ? { appendContext: 'Go on.' } : undefined) }),
  defineHook({ on: 'turnEnd', run: ({ turn }, ctx) => ctx.emit('turn ended', turn) }),
  defineHook({
    on: 'preToolUse',
    run({ args }, ctx) {
      ctx.emit('looked at', args)
      if (args.how === 'forbidden') return { deny: 'not on Sundays' }
      if (args.how === 'too_much') return { modify: { how: 'enough' } }
      if (args.how === 'unclear') throw new Error('ask a person')
      return undefined
    },
  }),
  defineHook({
    on: 'postToolUse',
    tools: ['look', 'set'],
    run({ args, callId }, ctx) {
      ctx.emit('audited', callId)
      if (args.how === 'fatal' && ctx.attempt === 1) process.kill(process.pid, 'SIGKILL')
      return args.how === 'telling' ? { appendContext: 'That was important.' } : undefined
    },
  }),
  defineHook({
    on: 'postToolUseFailure',
    run() {
      throw new Error('no network')
    },
  }),
  defineHook({
    on: 'agentStop',
    run: ({ result }) => (result.text === 'you said: check' ? { appendContext: 'Check it again.' } : undefined),
  }),
]

const use = (name: string, how: string) => ({ type: 'tool_use', id: 'x', name, input: { how } }) as const
/** Makes four calls in a run. A summary succeeds at the second attempt in the first run, and never in the second. */
const forgetful = scripted(
  ({ run, turn, purpose }, { attempt }) => {
    if (purpose === 'compaction') {
      if (run === 2) throw new ModelError('permission_error', 'no summaries today', { retryable: false })
      if (run === 1 && attempt === 1) throw new ModelError('overloaded_error', 'overloaded', { retryable: true, retryAfter: 10 })
      return `what was said up to turn ${turn} of run ${run}`
    }
    if (run === 3 && turn === 2 && attempt === 1) throw new ModelError('context_overflow', 'prompt is too long', { retryable: false })
    return turn > 4 ? 'done' : [turn === 1 ? use('set', 'a') : use('look', `${turn}`.repeat(400))]
  },
  { contextWindow: 1_000 },
)

/** Each answer has 1,000 tokens, each of which costs a ten-thousandth of a dollar. */
const metered: Model = {
  ...scripted((request, ctx) => {
    const given = answer(request, ctx.attempt)
    const content = typeof given === 'string' ? [{ type: 'text' as const, text: given }] : Array.isArray(given) ? given : given.content
    return { content, usage: { input_tokens: 0, output_tokens: 1_000, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 } }
  }),
  price: { input: 0, output: 100 },
  maxTokens: 2_000,
}

export const recorded = defineAgent({ ...agent, name: 'recorded' })
/** Reaches its limit of turns early. */
export const bounded = defineAgent({ ...agent, name: 'bounded', limits: { maxTurns: 2 } })
export const hurried = defineAgent({ ...agent, name: 'hurried', limits: { deadline: '2s' } })
/** Has every hook. */
export const hooked = defineAgent({ ...agent, name: 'hooked', hooks })
export const budgeted = defineAgent({ ...agent, model: metered, name: 'budgeted', limits: { maxUsd: 1 }, sessionLimits: { maxUsd: 5 } })
/** Makes its checkpoints on events. */
export const careful = defineAgent({
  ...agent,
  name: 'careful',
  checkpoint: { on: [{ type: 'milestone_reached' }, { type: 'tool_completed', tool: 'set' }] },
})
/** Makes its checkpoints by time. */
export const timely = defineAgent({ ...agent, name: 'timely', checkpoint: { every: 300 } })
/** Has a small context window. */
export const forgets = defineAgent({ ...agent, name: 'forgetful', model: forgetful, compaction: { at: 0.5, keepTurns: 1 } })
/** Served only after their sessions have received a message, like the next one. */
export const late = defineAgent({ ...agent, name: 'late' })
export const later = defineAgent({ ...agent, name: 'later' })

export default defineWorker({ agents: [recorded, bounded, hurried, hooked, budgeted, careful, timely, forgets] })
