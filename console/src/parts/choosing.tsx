// Recovering a failed run call by call: what becomes of each call of its newest turn, with what that would do.
import type { ComponentChildren } from 'preact'
import { useMemo, useState } from 'preact/hooks'
import type { SessionEvent } from '../../../src/session/events.ts'
import { type ChoicePreview, previewChoice } from '../../../src/session/recovery/choice-preview.ts'
import { Refused } from '../api/client.ts'
import { whyNotDone } from '../loading.ts'
import { changesSince } from '../session/words.ts'
import { choiceOf, type Fate, fatesOf, type FatedCall, linesOfChoice, needsForce, WORDS } from '../session/choosing.ts'
import { recoverSession } from '../session/recovery.ts'
import { Changed } from './changed.tsx'
import { Problem, Status, Waits, WAITS_FOR_WORKER } from './common.tsx'
import { Decision } from './deciding.tsx'

interface ChoosingProps {
  session: string
  scopes: readonly string[]
  events: readonly SessionEvent[]
}

export default function Choosing({ session, scopes, events }: ChoosingProps) {
  const [seen, setSeen] = useState(events)
  const [chosen, setChosen] = useState<ReadonlyMap<string, Fate>>(new Map())
  const [isForced, setForced] = useState(false)
  const [reason, setReason] = useState('')
  const [problem, setProblem] = useState<string>()
  const [isRefused, setRefused] = useState(false)
  const [isSending, setSending] = useState(false)
  const calls = useMemo(() => fatesOf(seen), [seen])
  const choice = choiceOf(calls, chosen, isForced)
  // The server records the identity of the visitor.
  const preview = useMemo(() => previewChoice(seen, choice, 'the visitor'), [seen, chosen, isForced])
  const seenSeq = seen.at(-1)?.seq ?? 0
  const hasMoved = isRefused || changesSince(events, seenSeq).length > 0
  const lookAgain = (): void => {
    setSeen(events)
    setChosen(new Map())
    setRefused(false)
    setProblem(undefined)
  }
  const recover = async (): Promise<void> => {
    setSending(true)
    try {
      await recoverSession(session, { strategy: 'selective', ...choice, seenSeq, ...(reason.trim() !== '' && { reason: reason.trim() }) })
      setProblem(undefined)
    } catch (error) {
      setRefused(error instanceof Refused && error.code === 'session_moved')
      setProblem(whyNotDone(error))
    }
    setSending(false)
  }
  return (
    <section class="going-back" aria-label="Choose per call">
      {calls.map((call) => (
        <CallChoice key={call.callId} call={call} fate={chosen.get(call.callId) ?? call.usual} onChoose={(fate) => setChosen(new Map(chosen).set(call.callId, fate))}>
          {call.isUnknown && <Decision call={{ sessionId: session, callId: call.callId, kind: 'unknown', digest: null }} scopes={scopes} onDecided={() => undefined} />}
        </CallChoice>
      ))}
      {needsForce(calls, choice.redo) && (
        <label>
          <input type="checkbox" checked={isForced} onChange={(event) => setForced(event.currentTarget.checked)} /> effects that have completed may happen again
        </label>
      )}
      {'refused' in preview ? <p class="aside">{preview.refused.reason}</p> : <Preview preview={preview} />}
      <Changed events={events} seen={seenSeq} isRefused={isRefused} lookAgain={lookAgain} />
      <div class="choices">
        <input type="text" aria-label="Reason" placeholder="Reason" value={reason} onInput={(event) => setReason(event.currentTarget.value)} />
        <button type="button" class="primary" disabled={isSending || hasMoved || 'refused' in preview} onClick={() => void recover()}>
          Recover with these choices
        </button>
      </div>
      {isSending && <Waits text={WAITS_FOR_WORKER} />}
      <Problem text={problem} />
    </section>
  )
}

interface CallChoiceProps {
  call: FatedCall
  fate: Fate | undefined
  onChoose(fate: Fate): void
  children: ComponentChildren
}

function CallChoice({ call: { callId, tool, status, fates }, fate, onChoose, children }: CallChoiceProps) {
  return (
    <fieldset>
      <legend>
        <strong>{tool}</strong> <code>{callId}</code> <Status is={status} />
      </legend>
      <div class="filters">
        {fates.map((one) => (
          <label key={one}>
            <input type="radio" name={`fate of ${callId}`} checked={one === fate} onChange={() => onChoose(one)} /> {WORDS[one]}
          </label>
        ))}
      </div>
      {children}
    </fieldset>
  )
}

function Preview({ preview }: { preview: ChoicePreview }) {
  return (
    <ul class="preview" aria-label="Preview">
      {linesOfChoice(preview).map(({ tone, text }) => (
        <li key={text} class={tone}>
          {text}
        </li>
      ))}
    </ul>
  )
}
