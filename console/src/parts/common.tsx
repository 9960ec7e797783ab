// Small parts that all pages use.
import type { ComponentChildren } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { now as serverNow, timeOf } from '../clock.ts'
import type { Listed } from '../loading.ts'

export type Tone = 'quiet' | 'good' | 'busy' | 'warn' | 'bad'

const TONES: Readonly<Record<string, Tone>> = {
  idle: 'quiet',
  closed: 'quiet',
  running: 'busy',
  waiting: 'warn',
  error: 'bad',
  completed: 'good',
  failed: 'bad',
  unknown: 'warn',
  issued: 'busy',
  requested: 'busy',
  awaiting_approval: 'warn',
  awaiting_answer: 'warn',
  awaiting_resolution: 'warn',
}

/** A status, as a word with a colour. */
export function Status({ is, tone = TONES[is] ?? 'quiet' }: { is: string; tone?: Tone }) {
  return <span class={`status ${tone}`}>{is.replaceAll('_', ' ')}</span>
}

const RELATIVE = new Intl.RelativeTimeFormat('en', { numeric: 'auto', style: 'narrow' })
const STEPS: [limit: number, unit: Intl.RelativeTimeFormatUnit, ms: number][] = [
  [60_000, 'second', 1_000],
  [3_600_000, 'minute', 60_000],
  [86_400_000, 'hour', 3_600_000],
  [Infinity, 'day', 86_400_000],
]

function agoOf(at: number, now: number): string {
  const ms = at - now
  const [, unit, size] = STEPS.find(([limit]) => Math.abs(ms) < limit) ?? ['', 'day', 86_400_000]
  return RELATIVE.format(Math.trunc(ms / (size as number)), unit as Intl.RelativeTimeFormatUnit)
}

/** How long ago something was, by the server's clock; the whole time is in its title. */
export function Ago({ at }: { at: string | number }) {
  const [now, setNow] = useState(serverNow)
  useEffect(() => {
    const timer = setInterval(() => setNow(serverNow()), 10_000)
    return () => clearInterval(timer)
  }, [])
  const time = timeOf(at)
  if (!time) return <span class="aside">{NO_TIME}</span>
  // An event of now may be later than the last look at the clock.
  const isNew = Math.abs(time.getTime() - now) < 10_000
  return (
    <time dateTime={time.toISOString()} title={time.toLocaleString()}>
      {isNew ? 'now' : agoOf(time.getTime(), now)}
    </time>
  )
}

/** For a time that is none, or that no calendar has. */
const NO_TIME = 'at an impossible time'

/** The time of day; the date is in its title. */
export function Clock({ at }: { at: number }) {
  const time = timeOf(at)
  if (!time) return <span class="clock">{NO_TIME}</span>
  return (
    <time class="clock" dateTime={time.toISOString()} title={time.toLocaleString()}>
      {time.toLocaleTimeString([], { hour12: false })}
    </time>
  )
}

export const dollars = (usd: number): string => `$${usd.toFixed(usd < 1 ? 4 : 2)}`

/** Nothing to show, and what to do about it. `isPage`: the page has no other heading. */
export function Empty({ title, isPage, children }: { title: string; isPage?: boolean; children?: ComponentChildren }) {
  const Heading = isPage ? 'h1' : 'h2'
  return (
    <div class="empty">
      <Heading>{title}</Heading>
      {children}
    </div>
  )
}

export function Problem({ text, again }: { text: string | undefined; again?: () => void }) {
  if (text === undefined) return null
  return (
    <p class="problem" role="alert">
      {text}{' '}
      {again && (
        <button type="button" onClick={again}>
          Try again
        </button>
      )}
    </p>
  )
}

const SOON_MS = 1_000
/** Said while a session has not accepted a request. */
export const WAITS_FOR_WORKER = 'Waiting for a worker that carries it out.'

/** Says what a request waits for, once it has taken longer than usual. */
export function Waits({ text }: { text: string }) {
  const [isLong, setLong] = useState(false)
  useEffect(() => {
    const timer = setTimeout(() => setLong(true), SOON_MS)
    return () => clearTimeout(timer)
  }, [])
  return (
    <p class="aside" role="status">
      {isLong && text}
    </p>
  )
}

/** Below a list that has more rows than the page shows: how many these are, and the button for the next ones. */
export function More({ of, more, text }: { of: Listed<unknown> | undefined; more: (() => void) | undefined; text: string }) {
  if (!of?.hasMore) return null
  return (
    <>
      <p class="aside">{of.items.length.toLocaleString('en')} are shown; there are more.</p>
      <button type="button" class="wide" disabled={more === undefined} onClick={more}>
        {text}
      </button>
    </>
  )
}

export { Value } from './value.tsx'
