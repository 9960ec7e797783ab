// Plan, memory, budgets and effects of a session, as they were at the event that the page shows.
import { useRef } from 'preact/hooks'
import type { SessionEvent } from '../../../src/session/events.ts'
import { type MomentReader, momentReader } from '../session/moment.ts'
import { dollars, Status } from './common.tsx'

const TONES = { pending: 'quiet', in_progress: 'busy', done: 'good', blocked: 'warn' } as const

/** Shows what there is; nothing for a session without any of it. */
export function AtMoment({ events, at }: { events: readonly SessionEvent[]; at: number }) {
  const reader = useRef<MomentReader | undefined>(undefined)
  reader.current ??= momentReader()
  const moment = reader.current.read(events, at)
  if (!moment) return null
  const { plan, memory, budgets, effects } = moment
  const texts = memory.filter(({ content }) => content !== '')
  if (!plan && texts.length === 0 && budgets.length === 0 && effects.length === 0) return null
  return (
    <div class="moment">
      {plan && (
        <details>
          <summary>
            Plan <span class="aside">{`${plan.steps.filter(({ status }) => status === 'done').length} of ${plan.steps.length} done, version ${plan.version}`}</span>
          </summary>
          <p class="text">{plan.objective}</p>
          <ol aria-label="Plan">
            {plan.steps.map((step) => (
              <li key={step.id}>
                <Status is={step.status} tone={TONES[step.status]} /> {step.title} {step.evidence !== undefined && <span class="aside">{step.evidence}</span>}
              </li>
            ))}
          </ol>
        </details>
      )}
      {texts.length > 0 && (
        <details>
          <summary>
            Memory <span class="aside">{texts.map(({ block }) => block).join(', ')}</span>
          </summary>
          <dl>
            {texts.map(({ block, content, maxChars }) => (
              <div key={block}>
                <dt>
                  {block} {maxChars !== undefined && `(${content.length} of ${maxChars})`}
                </dt>
                <dd class="text">{content}</dd>
              </div>
            ))}
          </dl>
        </details>
      )}
      {budgets.length > 0 && (
        <details>
          <summary>
            Budgets <span class="aside">{budgets.map(({ scope, unit, left }) => `${scope}: ${amount(unit, left)} left`).join(', ')}</span>
          </summary>
          <ul>
            {budgets.map(({ scope, unit, limit, spent, left }) => (
              <li key={`${scope} ${unit}`}>
                {scope}: {amount(unit, spent)} of {amount(unit, limit)} spent, {amount(unit, left)} left
              </li>
            ))}
          </ul>
        </details>
      )}
      {effects.length > 0 && (
        <details>
          <summary>
            Effects <span class="aside">{effects.length} that completed or may have, and that going back does not undo</span>
          </summary>
          <ul aria-label="Effects">
            {effects.map(({ callId, tool, status, effectId, args, seq }) => (
              <li key={callId}>
                <strong>{tool}</strong> <Status is={status} /> {effectId !== undefined && <code>{effectId}</code>} <span class="aside">{args}</span>{' '}
                <span class="seq">
                  {callId} #{seq}
                </span>
              </li>
            ))}
          </ul>
        </details>
      )}
    </div>
  )
}

const amount = (unit: 'tokens' | 'usd', value: number): string => (unit === 'usd' ? dollars(value) : `${value.toLocaleString('en')} tokens`)
