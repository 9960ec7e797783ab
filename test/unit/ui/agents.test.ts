// What a chat shows of the agents that answer its calls.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { SessionEvent } from '../../../src/session/events.ts'
import { MAX_AGENT_CHARACTERS, startAgents } from '../../../src/ui/agents.ts'

const ROOT = 'root'
const CHILD = `${ROOT}/${'a'.repeat(12)}`
const GRANDCHILD = `${CHILD}/${'b'.repeat(12)}`

/** Events of one session, with their numbers. */
function eventsOf(...bodies: object[]): SessionEvent[] {
  return bodies.map((body, n) => ({ v: 1, seq: n + 1, at: n, run: 1, turn: 1, ...body }) as SessionEvent)
}

const asked = (session: string, callId = 't_1_1_0') => ({ type: 'answer_requested', callId, child: { session, agent: 'x' } })
const text = (said: string, turn = 1) => ({ type: 'model_completed', turn, content: [{ type: 'text', text: said }], calls: [] })
const calling = (said: string, turn = 1) => ({
  type: 'model_completed',
  turn,
  content: [
    { type: 'text', text: said },
    { type: 'tool_use', id: 'u', name: 'note', input: {} },
    { type: 'tool_use', id: 'v', name: 'clerk', input: { message: 'x'.repeat(5_000) } },
  ],
  calls: [
    { index: 0, tool: 'note', effect: 'read' },
    { index: 1, tool: 'clerk', effect: 'idempotent', client: { timeoutMs: null, agent: { name: 'clerk' } } },
  ],
})

function atWork(child: readonly SessionEvent[], grandchild: readonly SessionEvent[] = []) {
  const agents = startAgents(ROOT)
  for (const event of eventsOf(asked(CHILD))) agents.ownEvent(event)
  for (const event of child) agents.event(CHILD, event)
  for (const event of grandchild) agents.event(GRANDCHILD, event)
  return agents
}

function messageIn(agents: ReturnType<typeof startAgents>) {
  const [call] = agents.calls()
  return call && agents.messageOf(call)
}

const sizeOf = (parts: readonly object[]): number => parts.reduce((sum, part) => sum + ('text' in part ? String(part.text).length : 0), 0)

describe('what a chat shows of agents at work', () => {
  it('a chat shows texts and calls of agents, but no other calls, and long arguments only in part', () => {
    const agents = atWork(eventsOf(calling('I ask.'), asked(GRANDCHILD, 't_1_1_1')), eventsOf(text('I look.')))
    expect(messageIn(agents)?.parts).toEqual([
      { type: 'text', text: 'I ask.', state: 'done' },
      {
        type: 'tool-clerk',
        toolCallId: 't_1_1_1',
        providerExecuted: true,
        input: expect.stringMatching(/^\{"message":"x{900,1000}…$/),
        state: 'output-available',
        preliminary: true,
        output: { id: GRANDCHILD, role: 'assistant', parts: [{ type: 'text', text: 'I look.', state: 'done' }] },
      },
    ])
    expect(agents.sessions()).toEqual([CHILD, GRANDCHILD])
  })

  it('a chat shows the answer of an agent further down once its call has it, and nothing more of its session', () => {
    const agents = atWork(eventsOf(calling('I ask.'), asked(GRANDCHILD, 't_1_1_1')), eventsOf(text('I look.')))
    agents.event(CHILD, eventsOf({ type: 'tool_completed', callId: 't_1_1_1', value: 'blue' })[0] as SessionEvent)
    agents.event(GRANDCHILD, eventsOf(text('late'))[0] as SessionEvent)
    expect(messageIn(agents)?.parts.at(-1)).toMatchObject({ state: 'output-available', output: 'blue' })
    expect(messageIn(agents)?.parts.at(-1)).not.toHaveProperty('preliminary')
    expect(agents.sessions()).toEqual([CHILD])
  })

  it('a chat shows the newest 10,000 characters of an agent, whether it has followed the agent or reads its end', () => {
    const said = fc.array(fc.nat(6_000), { minLength: 1, maxLength: 12 })
    fc.assert(
      fc.property(said, (lengths) => {
        const events = eventsOf(...lengths.map((length, n) => text(`${n} `.repeat(Math.ceil(length / 2)) || '.', n + 1)))
        const whole = messageIn(atWork(events))
        let characters = 0
        const end = events.toReversed().filter((event) => {
          const isNeeded = characters <= MAX_AGENT_CHARACTERS
          characters += event.type === 'model_completed' ? sizeOf(event.content) : 0
          return isNeeded
        })
        expect(messageIn(atWork(end.reverse()))).toEqual(whole)
        expect(sizeOf(whole?.parts ?? [])).toBeLessThanOrEqual(MAX_AGENT_CHARACTERS)
        expect(sizeOf(whole?.parts ?? [])).toBeGreaterThanOrEqual(Math.min(characters, MAX_AGENT_CHARACTERS) - 2)
      }),
    )
  })

  it('a chat shows the end of a long text while it streams', () => {
    const agents = atWork([])
    for (let n = 0; n < 3_000; n++) agents.text(CHILD, `${n} words `)
    const [part] = messageIn(agents)?.parts ?? []
    expect(part).toMatchObject({ type: 'text', state: 'streaming', text: expect.stringMatching(/^….* 2999 words $/s) })
    agents.reset(CHILD)
    expect(messageIn(agents)?.parts).toEqual([])
  })

  it('a chat shows an agent in the background until it answers, or until the chat’s answer ends', () => {
    const started = { type: 'tool_completed', callId: 't_1_1_0', value: { session: CHILD, status: 'started' } }
    for (const end of [
      { type: 'message_received', messageId: 'm', content: '', answers: { session: CHILD, callId: 't_1_1_0' } },
      { type: 'run_completed' },
      { type: 'run_interrupted' },
      { type: 'turn_started', turn: 2, takes: ['m2'] },
    ]) {
      const agents = atWork(eventsOf(text('I look.')))
      expect(agents.ownEvent(eventsOf(started)[0] as SessionEvent)).toEqual([])
      expect(messageIn(agents)?.parts).toHaveLength(1)
      expect(agents.ownEvent(eventsOf(end)[0] as SessionEvent)).toEqual([{ toolCallId: 't_1_1_0', session: CHILD, inBackground: true }])
      expect(agents.calls()).toEqual([])
    }
  })

  it('a chat shows only an agent’s newest run', () => {
    const agents = atWork(eventsOf(text('I failed.'), { type: 'run_started', run: 2, messageId: 'm' }, text('Again.')))
    expect(messageIn(agents)?.parts).toEqual([{ type: 'text', text: 'Again.', state: 'done' }])
  })
})
