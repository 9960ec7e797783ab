// Rolling a session back, forking it and answering again, from the event that the page shows, with what that would do.
import { useMemo, useState } from 'preact/hooks'
import type { SessionEvent, Target } from '../../../src/session/events.ts'
import {
  type GoingBackPreview,
  previewFork,
  previewRegeneration,
  previewRollback,
  targetsBefore,
} from '../../../src/session/recovery/rollback-preview.ts'
import { answered, api, Refused } from '../api/client.ts'
import { whyNotDone, wordsFor } from '../loading.ts'
import { type KeyHeader, useRequestKey } from '../request-key.ts'
import { linkTo } from '../route.ts'
import { changesSince, type GoingBack, linesOf, wordsForTarget } from '../session/words.ts'
import { Changed } from './changed.tsx'
import { Problem, Waits, WAITS_FOR_WORKER } from './common.tsx'

export interface GoBackProps {
  session: string
  scopes: readonly string[]
  events: readonly SessionEvent[]
  /** The event that the page shows; undefined: the newest. */
  at: number | undefined
  onClose(): void
}

const WAYS: readonly [what: GoingBack, title: string, scope: string][] = [
  ['rollback', 'Roll back', 'operate'],
  ['fork', 'Fork', 'operate'],
  ['regenerate', 'Answer again', 'send'],
]

type Outcome = { text: string; fork?: string }

/** Where to go back to, and for what it was chosen. */
interface Chosen {
  what: GoingBack
  at: number | undefined
  target: Target | undefined
}

export default function GoBack({ session, scopes, events, at, onClose }: GoBackProps) {
  const ways = WAYS.filter(([, , scope]) => scopes.includes(scope))
  const [what, setWhat] = useState<GoingBack>(ways[0]?.[0] ?? 'rollback')
  const [seen, setSeen] = useState(events)
  const [choice, setChoice] = useState<Chosen>()
  const [isForgotten, setForgotten] = useState(false)
  const [said, setSaid] = useState('')
  const [problem, setProblem] = useState<string>()
  const [isRefused, setRefused] = useState(false)
  const [outcome, setOutcome] = useState<Outcome>()
  const [isSending, setSending] = useState(false)
  const keyed = useRequestKey()
  const seenSeq = seen.at(-1)?.seq ?? 0
  // Events that come later do not change what the person chooses from.
  const point = Math.min(at ?? seenSeq, seenSeq)
  const isNow = point === seenSeq
  const targets = useMemo(() => targetsBefore(seen, point), [seen, point])
  // A fork of now needs no target.
  const choices: (Target | undefined)[] = what === 'fork' && isNow ? [undefined, ...targets] : targets
  // It is chosen for one way, at one event.
  const chosen = choice?.what === what && choice.at === at ? choice.target : undefined
  const nth = Math.max(0, choices.findIndex((one) => isSame(one, chosen)))
  const target = choices[nth]
  const preview = useMemo(() => previewed(what, seen, { target, isForgotten }), [what, seen, target, isForgotten])
  const hasMoved = changesSince(events, seenSeq).length > 0 || isRefused
  const lookAgain = (): void => {
    setSeen(events)
    setRefused(false)
    setProblem(undefined)
  }
  const send = async (): Promise<void> => {
    setSending(true)
    try {
      const how = { target, isForgotten, said: said.trim(), seenSeq }
      setOutcome(await keyed([what, how], (header) => carryOut(session, what, header, how)))
      setProblem(undefined)
    } catch (error) {
      setRefused(error instanceof Refused && error.code === 'session_moved')
      setProblem(whyNotDone(error))
    }
    setSending(false)
  }
  if (outcome)
    return (
      <section class="going-back" aria-label="Go back">
        <p role="status">
          {outcome.text} {outcome.fork !== undefined && <a href={linkTo(['sessions', outcome.fork])}>{outcome.fork}</a>}
        </p>
        <button type="button" onClick={onClose}>
          Close
        </button>
      </section>
    )
  return (
    <section class="going-back" aria-label="Go back">
      <div class="line">
        <div class="filters" role="radiogroup" aria-label="What to do">
          {ways.map(([way, title]) => (
            <label key={way}>
              <input type="radio" name="way" checked={way === what} onChange={() => setWhat(way)} /> {title}
            </label>
          ))}
        </div>
        <span class="spring" />
        <button type="button" onClick={onClose}>
          Close
        </button>
      </div>
      {what !== 'regenerate' && (
        <div class="line">
          <select aria-label="Where to" value={nth} onChange={(event) => setChoice({ what, at, target: choices[Number(event.currentTarget.value)] })}>
            {choices.map((one, index) => (
              <option key={index} value={index}>
                {one ? wordsForTarget(one, seen) : 'from now'}
              </option>
            ))}
          </select>
          <label>
            <input type="checkbox" checked={isForgotten} onChange={(event) => setForgotten(event.currentTarget.checked)} />{' '}
            {what === 'fork' ? 'the fork forgets the keys of effects' : 'I have undone these effects outside of pawl'}
          </label>
        </div>
      )}
      {'refused' in preview ? <Problem text={preview.refused} /> : <Preview what={what} preview={preview} />}
      <Changed events={events} seen={seenSeq} isRefused={isRefused} lookAgain={lookAgain} />
      <div class="choices">
        {what === 'fork' ? (
          <input type="text" aria-label="Id of the fork" placeholder="Id of the fork (default: a new one)" value={said} onInput={(event) => setSaid(event.currentTarget.value)} />
        ) : (
          <input type="text" aria-label="Reason" placeholder="Reason" value={said} onInput={(event) => setSaid(event.currentTarget.value)} />
        )}
        <button type="button" class="primary" disabled={isSending || hasMoved || 'refused' in preview} onClick={() => void send()}>
          {what === 'rollback' ? 'Roll the session back' : what === 'fork' ? 'Make the fork' : 'Ask the model again'}
        </button>
      </div>
      {isSending && <Waits text={WAITS_FOR_WORKER} />}
      <Problem text={problem} />
    </section>
  )
}

function Preview({ what, preview }: { what: GoingBack; preview: GoingBackPreview }) {
  return (
    <ul class="preview" aria-label="Preview">
      {linesOf(what, preview).map(({ tone, text }) => (
        <li key={text} class={tone}>
          {text}
        </li>
      ))}
    </ul>
  )
}

interface Choice {
  target: Target | undefined
  isForgotten: boolean
}

function previewed(what: GoingBack, events: readonly SessionEvent[], { target, isForgotten }: Choice): GoingBackPreview | { refused: string } {
  try {
    if (what === 'regenerate') return previewRegeneration(events)
    if (what === 'fork') return previewFork(events, { ...(target && { target }), keys: isForgotten ? 'forgotten' : 'carried' })
    if (!target) return { refused: 'Nothing before this event can be gone back to. Move the slider forward.' }
    return previewRollback(events, { target, keys: isForgotten ? 'forgotten' : 'kept' })
  } catch (error) {
    return { refused: wordsFor(error) }
  }
}

const isSame = (one: Target | undefined, other: Target | undefined): boolean => JSON.stringify(one) === JSON.stringify(other)

async function carryOut(
  session: string,
  what: GoingBack,
  header: KeyHeader,
  { target, isForgotten, said, seenSeq }: Choice & { said: string; seenSeq: number },
): Promise<Outcome> {
  const params = { path: { session }, header }
  const reason = said === '' ? {} : { reason: said }
  if (what === 'regenerate') {
    await answered(api.POST('/v1/sessions/{session}/regenerate', { params, body: { seenSeq, ...reason } }))
    return { text: 'The message is answered again.' }
  }
  if (what === 'fork') {
    const body = { ...target, keys: isForgotten ? ('forgotten' as const) : ('carried' as const), seenSeq, ...(said !== '' && { id: said }) }
    const { sessionId } = await answered(api.POST('/v1/sessions/{session}/fork', { params, body }))
    return { text: 'The fork:', fork: sessionId }
  }
  const body = { ...target, ...(isForgotten && { keys: 'forgotten' as const }), seenSeq, ...reason }
  const { toSeq, effects, moreEffects } = await answered(api.POST('/v1/sessions/{session}/rollback', { params, body }))
  const count = effects.length + moreEffects
  return { text: `Rolled back to event ${toSeq}. ${count === 0 ? 'There was no effect to undo.' : count === 1 ? 'One effect was not undone.' : `${count} effects were not undone.`}` }
}
