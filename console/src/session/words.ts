// What previews and changes mean, in words for people. Pure.
import { counted } from '../../../src/session/counted.ts'
import type { SessionEvent, Target } from '../../../src/session/events.ts'
import { moves } from '../../../src/session/recovery/moved.ts'
import type { GoingBackPreview } from '../../../src/session/recovery/rollback-preview.ts'

export type GoingBack = 'rollback' | 'fork' | 'regenerate'

/** A line of a preview. */
export interface PreviewLine {
  tone: 'quiet' | 'warn' | 'bad'
  text: string
}

const SHOWN = 12

/** At most so many names; the rest is counted. */
function named(names: readonly string[]): string {
  const more = names.length - SHOWN
  return more > 0 ? `${names.slice(0, SHOWN).join(', ')} and ${more} more` : names.join(', ')
}

/** What going back would do. */
export function linesOf(what: GoingBack, preview: GoingBackPreview): PreviewLine[] {
  const { toSeq, interrupts, stops, messages, answers, calls, effects, moreEffects, replays, waits, restored, next } = preview
  const isFork = what === 'fork'
  const lines: PreviewLine[] = []
  const say = (tone: PreviewLine['tone'], text: string): void => void lines.push({ tone, text })
  say('quiet', isFork ? `The fork has the events up to ${toSeq}.` : `The session goes back to event ${toSeq}.`)
  if (interrupts !== null) say('warn', `Run ${interrupts} is interrupted first.`)
  if (stops.length > 0) say('warn', `Stops ${named(stops)}. One that has begun may have happened.`)
  const leaving = [
    messages.length > 0 && counted(messages.length, 'message'),
    answers.length > 0 && counted(answers.length, 'answer'),
    calls.length > 0 && `the results of ${named(calls)}`,
  ].filter(Boolean)
  if (leaving.length === 0) say('quiet', isFork ? 'It lacks nothing of the conversation.' : 'Nothing leaves the conversation.')
  else say('quiet', `${isFork ? 'It lacks' : 'Archives'} ${leaving.join(', ')}.`)
  const done = effects.filter(({ status }) => status === 'completed')
  const unknown = effects.filter(({ status }) => status === 'unknown')
  const nameOf = ({ tool, callId, effectId }: (typeof effects)[number]): string => `${tool} (${effectId ?? callId})`
  if (done.length + moreEffects > 0) {
    const all = moreEffects > 0 ? ` and ${moreEffects} older ones` : ''
    say('bad', `${isFork ? 'Happened only in this session' : 'Does not undo'}: ${named(done.map(nameOf))}${all}.`)
  }
  if (unknown.length > 0) say('bad', `May have happened, and is not undone: ${named(unknown.map(nameOf))}.`)
  if (replays.length > 0)
    say('quiet', `Known by their keys, so that an equal request with the same key is not executed again: ${named(replays)}.`)
  if (restored)
    say(
      'quiet',
      `Restores ${[restored.plan !== undefined && 'the plan', restored.memory !== undefined && 'the memory'].filter(Boolean).join(' and ')}.`,
    )
  if (waits.length > 0) say('quiet', `${counted(waits.length, 'message')} wait${waits.length === 1 ? 's' : ''} for a run.`)
  say('quiet', next ? NEXT[next.step] : 'Then it waits for a message or a person.')
  return lines
}

export const NEXT: Record<NonNullable<GoingBackPreview['next']>['step'], string> = {
  new_run: 'Then a new run begins, and the model is asked.',
  model_call: 'Then the model is asked.',
  calls: 'Then calls are executed.',
  completion: 'Then the run completes.',
}

/** A target, for a list of choices. */
export function wordsForTarget(target: Target, events: readonly SessionEvent[]): string {
  if ('checkpoint' in target) return `to checkpoint ${target.checkpoint}`
  if ('run' in target) return `to before run ${target.run}`
  const sent = events.find((event) => event.type === 'message_received' && event.messageId === target.message)
  const content = sent?.type === 'message_received' ? sent.content : ''
  const text =
    typeof content === 'string' ? content : content.map((block) => (block.type === 'text' ? block.text : `[${block.type}]`)).join(' ')
  return `to before the message “${text.length > 60 ? `${text.slice(0, 59)}…` : text}”`
}

/** What has happened since an event that changes what a preview says. */
export function changesSince(events: readonly SessionEvent[], seen: number): { seq: number; text: string }[] {
  return events.flatMap((event) => {
    if (event.seq <= seen || !moves(event)) return []
    const about = 'callId' in event && event.callId !== undefined ? ` ${'tool' in event ? event.tool : ''} ${event.callId}` : ''
    return [{ seq: event.seq, text: `${event.type.replaceAll('_', ' ')}${about}` }]
  })
}
