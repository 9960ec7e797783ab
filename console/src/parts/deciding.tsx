// What a person decides about a call that waits.
import { useState } from 'preact/hooks'
import { answered, api } from '../api/client.ts'
import { whyNotDone } from '../loading.ts'
import type { ShownQuestion } from '../session/question-form.ts'
import { Problem } from './common.tsx'
import { lazy } from './lazy.tsx'

export interface WaitingCall {
  sessionId: string
  callId: string
  kind: 'approval' | 'client' | 'question' | 'unknown'
  digest: string | null
  /** The arguments that it would be executed with. */
  input?: unknown
  /** What its tool asks the user. */
  question?: ShownQuestion | undefined
}

const Asking = lazy(async () => (await import('./asking.tsx')).default)
const EditArguments = lazy(async () => (await import('./editing.tsx')).default)

type Scopes = readonly string[]

/** The buttons for a call. `onDecided`: the server has accepted a decision. */
export function Decision({ call, scopes, onDecided }: { call: WaitingCall; scopes: Scopes; onDecided(): void }) {
  const [note, setNote] = useState('')
  const [result, setResult] = useState('')
  const [problem, setProblem] = useState<string>()
  const [isSending, setSending] = useState(false)
  const [isEditing, setEditing] = useState(false)
  const path = { session: call.sessionId, call: call.callId }
  const send = async (request: () => Promise<unknown>): Promise<void> => {
    setSending(true)
    try {
      await request()
      setProblem(undefined)
      onDecided()
    } catch (error) {
      setProblem(whyNotDone(error))
    }
    setSending(false)
  }
  const said = note.trim() === '' ? {} : { note: note.trim() }
  if (call.kind === 'approval') {
    const digest = call.digest ?? ''
    const approve = (changed: { input?: unknown } = {}): Promise<unknown> =>
      answered(api.POST('/v1/sessions/{session}/calls/{call}/approve', { params: { path }, body: { digest, ...said, ...changed } }))
    const deny = (): Promise<unknown> => {
      const reason = note.trim() === '' ? {} : { reason: note.trim() }
      return answered(api.POST('/v1/sessions/{session}/calls/{call}/deny', { params: { path }, body: { digest, ...reason } }))
    }
    return (
      <Choices scopes={scopes} needs="approve" note={note} setNote={setNote} hint="Note, or the reason for a denial" problem={problem}>
        <button type="button" class="primary" disabled={isSending || isEditing} onClick={() => void send(() => approve())}>
          Approve
        </button>
        <button type="button" disabled={isSending} onClick={() => void send(deny)}>
          Deny
        </button>
        {call.input !== undefined && (
          <button type="button" aria-expanded={isEditing} onClick={() => setEditing(!isEditing)}>
            Edit arguments…
          </button>
        )}
        {isEditing && <EditArguments input={call.input} isSending={isSending} onApprove={(input) => void send(() => approve({ input }))} />}
      </Choices>
    )
  }
  if (call.kind === 'unknown') {
    const resolve = (resolution: 'skip' | { happened: false } | { happened: true; result: unknown }): Promise<unknown> =>
      answered(api.POST('/v1/sessions/{session}/calls/{call}/resolve', { params: { path }, body: { resolution: resolution as never, ...said } }))
    return (
      <Choices scopes={scopes} needs="operate" note={note} setNote={setNote} hint="How you know" problem={problem}>
        <input
          type="text"
          aria-label="Its result, as JSON"
          placeholder="Its result, as JSON, if it happened"
          value={result}
          onInput={(event) => setResult(event.currentTarget.value)}
        />
        <button type="button" disabled={isSending} onClick={() => void send(async () => resolve({ happened: true, result: result.trim() === '' ? null : jsonIn(result) }))}>
          It happened
        </button>
        <button type="button" disabled={isSending} onClick={() => void send(() => resolve({ happened: false }))}>
          It did not happen
        </button>
        <button type="button" disabled={isSending} onClick={() => void send(() => resolve('skip'))}>
          Skip it
        </button>
      </Choices>
    )
  }
  // A client tool's call asks no question: its digest is that of its arguments, which do not change.
  const answer = (result: unknown) => (): Promise<unknown> =>
    answered(api.POST('/v1/sessions/{session}/calls/{call}/answer', { params: { path }, body: { result, ...(call.kind === 'question' && call.digest !== null && { digest: call.digest }) } as never }))
  if (call.question) {
    if (!scopes.includes('send')) return <Lacking scope="send" />
    // The next question of the same call has a form of its own.
    return (
      <div class="choices">
        <Asking key={call.digest} question={call.question} isSending={isSending} onReply={(reply) => void send(answer(reply))} />
        <Problem text={problem} />
      </div>
    )
  }
  return (
    <Choices scopes={scopes} needs="send" note={note} setNote={setNote} hint="The result, as JSON" problem={problem}>
      <button type="button" class="primary" disabled={isSending} onClick={() => void send(async () => answer(jsonIn(note))())}>
        Answer
      </button>
    </Choices>
  )
}

/** @throws Error if it is not JSON. */
function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new Error('This is not JSON. Texts need quotation marks.')
  }
}

function Lacking({ scope }: { scope: string }) {
  return <p class="aside">Your credentials lack the scope “{scope}” for this decision.</p>
}

interface ChoicesProps {
  scopes: Scopes
  needs: string
  note: string
  setNote(text: string): void
  hint: string
  problem: string | undefined
  children: preact.ComponentChildren
}

function Choices({ scopes, needs, note, setNote, hint, problem, children }: ChoicesProps) {
  if (!scopes.includes(needs)) return <Lacking scope={needs} />
  return (
    <div class="choices">
      <input type="text" aria-label={hint} placeholder={hint} value={note} onInput={(event) => setNote(event.currentTarget.value)} />
      {children}
      <Problem text={problem} />
    </div>
  )
}
