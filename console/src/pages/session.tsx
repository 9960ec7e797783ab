import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { SessionEvent } from '../../../src/session/events.ts'
import type { SessionView } from '../../../src/session/watching/view.ts'
import { useActing } from '../acting.ts'
import { answered, api } from '../api/client.ts'
import { Clock, dollars, Empty, Problem, Status, Value } from '../parts/common.tsx'
import { Decision, type WaitingCall } from '../parts/deciding.tsx'
import { lazy } from '../parts/lazy.tsx'
import { AtMoment } from '../parts/moment.tsx'
import { Recover } from '../parts/recovering.tsx'
import { SeqLink } from '../parts/seq-link.tsx'
import { useRequestKey } from '../request-key.ts'
import { linkTo, type Place, replaceQuery } from '../route.ts'
import { Chunks } from '../session/chunks.tsx'
import { isKnown } from '../session/known.ts'
import { follow, NOTHING_READ, type Past, stateAfter } from '../session/past.ts'
import { type CallItem, type Item, type Step, timelineOf } from '../session/timeline.ts'

const Raise = lazy(async () => (await import('../parts/raising.tsx')).default)
const GoBack = lazy(async () => (await import('../parts/going-back.tsx')).default)

interface SessionProps {
  id: string
  scopes: readonly string[]
  place: Place
}

/** One session: what happened, what it is now, and what can be done. `at` in the address is the event up to which it is shown. */
export function Session({ id, scopes, place }: SessionProps) {
  const [past, setPast] = useState<Past>(NOTHING_READ)
  useEffect(() => {
    const stop = new AbortController()
    void follow(id, setPast, stop.signal)
    return () => stop.abort()
  }, [id])
  const { events, draft, isWhole, newest, interrupted, problem } = past
  const [isGoingBack, setGoingBack] = useState(false)
  // Of an event that this build does not know, no part of the page can say what it means.
  const understood = useMemo(() => events.filter(isKnown), [events])
  const given = Number(place.query.get('at') ?? newest)
  const at = Number.isInteger(given) && given > 0 && given < newest ? given : newest
  const isNow = at === newest
  const hasRead = isWhole || (events.at(-1)?.seq ?? 0) >= at
  const earlier = useMemo(() => {
    if (isNow || !hasRead) return undefined
    const shown = events.slice(0, events.findLastIndex(({ seq }) => seq <= at) + 1)
    return { items: timelineOf(shown), state: stateAfter(shown) }
  }, [events, at, isNow, hasRead])
  const { items, state } = isNow ? past : { items: earlier?.items ?? [], state: earlier?.state }
  const end = useFollowedEnd(isNow && items.length > 0, isNow && newest > LONG)
  if (problem !== undefined)
    return (
      <main>
        <Empty isPage title="This session cannot be shown">
          <p>{problem}</p>
          <a href={linkTo(['sessions'])}>All sessions</a>
        </Empty>
      </main>
    )
  if (items.length === 0 && !isWhole)
    return (
      <main aria-busy="true">
        <h1 class="loading">{id}</h1>
        {interrupted === undefined ? <p class="aside">Reading the session …</p> : <Interrupted text={interrupted} />}
      </main>
    )
  const go = (seq: number): void => replaceQuery(['sessions', id], { at: seq >= newest ? undefined : String(seq) })
  const decidable = isNow && isWhole ? scopes : []
  return (
    <main class="session">
      {state ? <Summary id={id} state={state} events={understood} isNow={isNow} scopes={scopes} /> : <Reading id={id} read={events.length} newest={newest} />}
      <div class="scrub">
        <label>
          event
          <input type="range" min={1} max={newest} value={at} disabled={!isWhole} onInput={(event) => go(Number(event.currentTarget.value))} />
        </label>
        <output>
          {at.toLocaleString('en')} of {newest.toLocaleString('en')}
        </output>
        <button type="button" disabled={isNow} onClick={() => go(newest)}>
          Now
        </button>
        <button type="button" class="plain" onClick={() => end.current?.scrollIntoView({ block: 'end' })}>
          <span aria-hidden="true">↓ </span>End
        </button>
        {isWhole && scopes.some((scope) => scope === 'operate' || scope === 'send') && (
          <button type="button" aria-expanded={isGoingBack} onClick={() => setGoingBack(!isGoingBack)}>
            Go back…
          </button>
        )}
      </div>
      {isWhole && <AtMoment events={understood} at={at} />}
      {isGoingBack && <GoBack session={id} scopes={scopes} events={understood} at={isNow ? undefined : at} onClose={() => setGoingBack(false)} />}
      {interrupted !== undefined && <Interrupted text={interrupted} />}
      <Chunks
        items={items}
        mode={`${isNow} ${decidable}`}
        render={(item) => <Entry key={item.seq} item={item} session={id} scopes={decidable} isNow={isNow} />}
      />
      {isNow && draft !== '' && (
        <div class="timeline">
          <div class="answer draft" aria-live="polite">
            <div class="meta">writing …</div>
            <p class="text" dir="auto">
              {draft}
            </p>
          </div>
        </div>
      )}
      {isNow && isWhole && scopes.includes('send') && <Send session={id} />}
      <div ref={end} />
    </main>
  )
}

/** A session with more events opens at its end. */
const LONG = 400
/** So near to the end of the page, one reads what comes. */
const NEAR_PX = 120

/** Keeps the end of the page in view while a person looks at it. `fromEnd`: the page opens there. */
function useFollowedEnd(isThere: boolean, fromEnd: boolean) {
  const end = useRef<HTMLDivElement>(null)
  const isNear = useRef(false)
  useEffect(() => {
    if (!isThere) return undefined
    const page = document.documentElement
    const look = (): void => {
      isNear.current = page.scrollHeight > innerHeight && page.scrollHeight - innerHeight - scrollY < NEAR_PX
    }
    const grown = new ResizeObserver(() => isNear.current && scrollTo({ top: page.scrollHeight }))
    if (fromEnd) {
      scrollTo({ top: page.scrollHeight })
      isNear.current = true
    }
    addEventListener('scroll', look, { passive: true })
    grown.observe(document.body)
    return () => {
      removeEventListener('scroll', look)
      grown.disconnect()
    }
  }, [isThere, fromEnd])
  return end
}

function Interrupted({ text }: { text: string }) {
  return (
    <p class="notice" role="status">
      {text}
    </p>
  )
}

/** Instead of the summary, until all events have been read. */
function Reading({ id, read, newest }: { id: string; read: number; newest: number }) {
  return (
    <header class="summary" aria-busy="true">
      <h1>{id}</h1>
      <p class="aside">
        Reading the events before these: {read.toLocaleString('en')} of {newest.toLocaleString('en')}
      </p>
      <progress max={newest} value={read} aria-label="Events read" />
    </header>
  )
}

interface SummaryProps {
  id: string
  state: SessionView
  events: readonly SessionEvent[]
  isNow: boolean
  scopes: readonly string[]
}

function Summary({ id, state, events, isNow, scopes }: SummaryProps) {
  const { act, isSending, problem } = useActing()
  const path = { session: id }
  const interrupt = () => answered(api.POST('/v1/sessions/{session}/interrupt', { params: { path }, body: {} }))
  const pause = () => answered(api.POST('/v1/sessions/{session}/pause', { params: { path }, body: {} }))
  const unpause = () => answered(api.POST('/v1/sessions/{session}/unpause', { params: { path }, body: {} }))
  const may = (scope: string): boolean => isNow && scopes.includes(scope)
  const isRunning = state.status === 'running' || state.status === 'waiting'
  return (
    <header class="summary">
      <div class="line">
        <h1>{id}</h1>
        <Status is={state.paused ? 'paused' : state.status} {...(state.paused && { tone: 'warn' as const })} />
        {!isNow && <span class="aside">as it was</span>}
        <span class="spring" />
        {may('send') && isRunning && (
          <button type="button" disabled={isSending} onClick={() => act(interrupt)}>
            Interrupt
          </button>
        )}
        {may('operate') && !state.paused && state.status !== 'closed' && (
          <button type="button" disabled={isSending} onClick={() => act(pause)}>
            Pause
          </button>
        )}
        {may('operate') && state.paused && (
          <button type="button" class="primary" disabled={isSending} onClick={() => act(unpause)}>
            Unpause
          </button>
        )}
      </div>
      <dl>
        <div>
          <dt>agent</dt>
          <dd>{state.agent}</dd>
        </div>
        <div>
          <dt>runs, turns</dt>
          <dd>
            {state.run}, {state.turns}
          </dd>
        </div>
        <div>
          <dt>tokens in, out</dt>
          <dd>
            {state.usage.input_tokens.toLocaleString('en')}, {state.usage.output_tokens.toLocaleString('en')}
          </dd>
        </div>
        {(state.spend?.usd ?? 0) > 0 && (
          <div>
            <dt>spent</dt>
            <dd>{dollars(state.spend?.usd ?? 0)}</dd>
          </div>
        )}
        {state.tags.length > 0 && (
          <div>
            <dt>tags</dt>
            <dd>{state.tags.join(', ')}</dd>
          </div>
        )}
        {state.queued > 0 && (
          <div>
            <dt>messages waiting</dt>
            <dd>{state.queued}</dd>
          </div>
        )}
      </dl>
      <Problem text={problem} />
      {state.paused?.raise && (
        <div class="failed">
          {state.paused.reason}
          {may('operate') && <Raise session={id} limits={state.paused.raise} />}
        </div>
      )}
      {state.error && (
        <div class="failed">
          <strong>{state.error.code}</strong> {state.error.reason}
          {state.error.nextAttemptAt !== undefined && <p>pawl tries again at {new Date(state.error.nextAttemptAt).toLocaleTimeString()}.</p>}
          {may('operate') && state.error.raise && <Raise session={id} limits={state.error.raise} />}
          {may('operate') && <Recover session={id} scopes={scopes} run={state.current?.run} events={events} />}
        </div>
      )}
    </header>
  )
}

interface EntryProps {
  item: Item
  session: string
  scopes: readonly string[]
  isNow: boolean
}

function Entry({ item, session, scopes, isNow }: EntryProps) {
  const className = `${item.kind}${item.isOut ? ' out' : ''}`
  if (item.kind === 'message')
    return (
      <li class={className}>
        <Meta at={item.at} seq={item.seq} what={item.by ?? 'user'} isOut={item.isOut} />
        <p class="text" dir="auto">
          {item.text}
        </p>
      </li>
    )
  if (item.kind === 'step')
    return (
      <li class={className}>
        <StepLine step={item.step} />
      </li>
    )
  return (
    <li class={className}>
      <Meta at={item.at} seq={item.seq} what={`${item.model}, turn ${item.turn}`} isOut={item.isOut} />
      {item.text !== '' && <p class="text" dir="auto">
          {item.text}
        </p>}
      {item.calls.map((call) => (
        <Call key={call.callId} call={call} session={session} scopes={scopes} isNow={isNow && !item.isOut} />
      ))}
    </li>
  )
}

function Meta({ at, seq, what, isOut }: { at: number; seq: number; what: string; isOut: boolean }) {
  return (
    <div class="meta">
      <span>{what}</span>
      {isOut && <span>no longer part of the conversation</span>}
      <span class="spring" />
      <Clock at={at} /> <SeqLink seq={seq} />
    </div>
  )
}

const KINDS: Partial<Record<CallItem['status'], WaitingCall['kind']>> = { awaiting_approval: 'approval', awaiting_resolution: 'unknown' }

function Call({ call, session, scopes, isNow }: { call: CallItem; session: string; scopes: readonly string[]; isNow: boolean }) {
  // What a session of another agent works on is no person's to answer.
  const isOthers = call.child !== undefined && call.status === 'awaiting_answer'
  const kind = call.status === 'awaiting_answer' ? (call.question ? 'question' : 'client') : KINDS[call.status]
  return (
    <section class="call" aria-label={`Call of ${call.tool}`}>
      <div class="line">
        <strong>{call.tool}</strong> <Status is={call.effect} tone="quiet" /> <Status is={call.status} />
        <span class="spring" />
        <code>{call.callId}</code>
      </div>
      <Value of={call.input} />
      {call.steps.length > 0 && (
        <ul class="steps">
          {call.steps.map((step) => (
            <li key={step.seq}>
              <StepLine step={step} />
            </li>
          ))}
        </ul>
      )}
      {call.result !== undefined && <Value of={call.result} />}
      {call.effectId !== undefined && <p class="aside">effect {call.effectId}</p>}
      {call.child !== undefined && (
        <p class="aside">
          answered by <a href={linkTo(['sessions', call.child])}>{call.child}</a>
        </p>
      )}
      {isNow && kind && !isOthers && (
        <Decision
          key={`${kind} ${call.digest}`}
          call={{ sessionId: session, callId: call.callId, kind, digest: call.digest ?? null, input: call.input, question: call.question }}
          scopes={scopes}
          onDecided={() => undefined}
        />
      )}
    </section>
  )
}

function StepLine({ step }: { step: Step }) {
  return (
    <div class={`step-line ${step.tone}`}>
      <span>{step.text}</span>
      {step.detail !== undefined && <span class="detail">{step.detail}</span>}
      <span class="spring" />
      <Clock at={step.at} /> <SeqLink seq={step.seq} />
    </div>
  )
}

function Send({ session }: { session: string }) {
  const [text, setText] = useState('')
  const { act, isSending, problem } = useActing()
  const keyed = useRequestKey()
  const send = (event: Event): void => {
    event.preventDefault()
    const content = text.trim()
    if (content === '') return
    const path = { session }
    const request = () =>
      keyed(content, (header) => answered(api.POST('/v1/sessions/{session}/messages', { params: { path, header }, body: { content } })))
    // What was written meanwhile stays.
    act(request, () => setText((now) => (now === text ? '' : now)))
  }
  return (
    <form class="send" onSubmit={send}>
      <textarea aria-label="Message" placeholder="Message to the agent" rows={2} value={text} onInput={(event) => setText(event.currentTarget.value)} />
      <button type="submit" class="primary" disabled={isSending}>
        Send
      </button>
      <Problem text={problem} />
    </form>
  )
}
