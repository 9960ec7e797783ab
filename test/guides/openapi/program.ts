// A program of a client that was generated from the OpenAPI document: its beginning is in docs/web.md. The types in pawl.d.ts exist only
// where test/integration/openapi-clients.test.ts compiles and runs it.
// #region guide
import createClient from 'openapi-fetch'
import type { paths } from './pawl.d.ts'

const { KEY, PAWL_URL = 'http://127.0.0.1:8787' } = process.env
const pawl = createClient<paths>({ baseUrl: PAWL_URL, headers: { Authorization: `Bearer ${KEY}` } })

const { data: sent, error } = await pawl.POST('/v1/sessions', { body: { agent: 'support', content: 'Where is order A1001?' } })
if (error) throw new Error(`${error.code}: ${error.detail}`)
const { data: run } = await pawl.GET('/v1/sessions/{session}/messages/{message}/run', {
  params: { path: { session: sent.sessionId, message: sent.messageId }, query: { wait: 20 } },
})
if (run?.status === 'completed') console.log(run.text)
// #endregion
import type { components } from './pawl.d.ts'

type SessionEvent = components['schemas']['SessionEvent']
type RunAnswer = components['schemas']['RunAnswer']

const session = sent.sessionId

/** Sends a message to the session, and waits until its run has settled. */
async function say(content: string): Promise<RunAnswer> {
  const { data: message } = await pawl.POST('/v1/sessions/{session}/messages', { params: { path: { session } }, body: { content } })
  if (!message) throw new Error('It was refused.')
  return settled(message.messageId)
}

async function settled(message: string): Promise<RunAnswer> {
  const { data: answer } = await pawl.GET('/v1/sessions/{session}/messages/{message}/run', { params: { path: { session, message } } })
  if (!answer) throw new Error('It was refused.')
  return answer.status === 'pending' ? settled(message) : answer
}

async function eventsAfter(seq: number): Promise<SessionEvent[]> {
  const { data } = await pawl.GET('/v1/sessions/{session}/events', { params: { path: { session }, query: { after: seq, limit: 5 } } })
  const newest = data?.items.at(-1)
  return newest && data ? [...data.items, ...(await eventsAfter(newest.seq))] : []
}

/** The call that waits for approval, once the list has it. */
async function pendingCall(): Promise<{ callId: string; digest: string; tool: string; reason: string | null; since: Date }> {
  const { data } = await pawl.GET('/v1/pending', { params: { query: { session, kind: ['approval', 'client'] } } })
  const [call] = data?.items ?? []
  if (!call) {
    await new Promise((resolve) => setTimeout(resolve, 100))
    return pendingCall()
  }
  if (call.digest === null) throw new Error('It waits for no approval.')
  return { callId: call.callId, digest: call.digest, tool: call.tool, reason: call.reason, since: new Date(call.waitingSince) }
}

const waiting = await say('refund')
const { callId, digest, tool, reason, since } = await pendingCall()
const ofCall = { path: { session, call: callId } }
const approve = '/v1/sessions/{session}/calls/{call}/approve'
const mistaken = await pawl.POST(approve, { params: ofCall, body: { digest: `${digest}0` } })
const approved = await pawl.POST(approve, { params: ofCall, body: { digest, note: 'Called the customer.', input: { cents: 5 } } })
const answers = (await eventsAfter(0)).flatMap((event) => (event.type === 'message_received' ? [event.messageId] : []))
const refunded = await settled(answers.at(-1) ?? '')

const events = await eventsAfter(0)
const inputTokens = events.reduce((sum, event) => sum + (event.type === 'model_completed' ? event.usage.input_tokens : 0), 0)
const decisions = events.flatMap((event) => (event.type === 'approval_decided' ? [[event.by, event.note]] : []))
const { data: calls } = await pawl.GET('/v1/tool-calls', { params: { query: { session } } })
const { data: status } = await pawl.GET('/v1/sessions/{session}', { params: { path: { session } } })
const { data: state } = await pawl.GET('/v1/sessions/{session}/state', { params: { path: { session } } })
const unknown = await pawl.GET('/v1/sessions/{session}', { params: { path: { session: `${session}-x` } } })
const invalid = await pawl.GET('/v1/sessions', { params: { query: { limit: 0 } } })
const closed = await pawl.POST('/v1/sessions/{session}/close', { params: { path: { session } } })

console.log(
  JSON.stringify({
    waiting: waiting.status === 'waiting' ? waiting.pending.map((call) => call.kind) : waiting.status,
    pending: { tool, reason, isDated: Math.abs(Date.now() - since.getTime()) < 600_000 },
    isOther: approved.data !== undefined && approved.data.digest !== digest,
    refunded: refunded.status === 'completed' ? refunded.text : refunded.status,
    inputTokens,
    decisions,
    calls: calls?.items.map((call) => [call.tool, call.status]),
    status: [status?.status, status?.waitsFor.map((wait) => wait.for), state?.turns],
    refusals: [mistaken, unknown, invalid].map((refused) => [refused.error?.status, refused.error?.code]),
    parts: invalid.error?.parts?.map(({ at }) => at),
    closed: [closed.response.status, closed.error],
  }),
)

/** What must not compile: otherwise, an error that is expected here is missing. */
export function mistakes(answer: RunAnswer, event: SessionEvent, problem: components['schemas']['Problem']): unknown[] {
  return [
    // @ts-expect-error -- a misspelt member of an answer
    answer.status === 'completed' && answer.txt,
    // @ts-expect-error -- a member of another outcome
    answer.status === 'failed' && answer.text,
    // @ts-expect-error -- an outcome that does not exist
    answer.status === 'complete',
    // @ts-expect-error -- a member of only one type of event
    event.usage,
    // @ts-expect-error -- a member of another type of event
    event.type === 'message_received' && event.usage,
    // @ts-expect-error -- a type that no event has
    event.type === 'model_complete',
    // @ts-expect-error -- a misspelt member of a refusal
    problem.message,
    // @ts-expect-error -- a body without content
    pawl.POST('/v1/sessions', { body: { agent: 'support' } }),
    // @ts-expect-error -- a decision without a digest
    pawl.POST(approve, { params: ofCall, body: {} }),
    // @ts-expect-error -- a route that does not exist
    pawl.GET('/v1/session'),
    // @ts-expect-error -- a kind that no call has
    pawl.GET('/v1/pending', { params: { query: { kind: ['approvals'] } } }),
  ]
}
