// What has happened since a preview was made: nobody decides on a session that has moved on without seeing how.
import type { SessionEvent } from '../../../src/session/events.ts'
import { changesSince } from '../session/words.ts'

interface ChangedProps {
  events: readonly SessionEvent[]
  seen: number
  /** The server has refused a request, although the page does not know why yet. */
  isRefused: boolean
  /** Makes the preview again. */
  lookAgain(): void
}

export function Changed({ events, seen, isRefused, lookAgain }: ChangedProps) {
  const changes = changesSince(events, seen)
  if (changes.length === 0 && !isRefused) return null
  return (
    <div class="changed" role="alert">
      <strong>The session has moved on since event {seen}.</strong>{' '}
      <button type="button" onClick={lookAgain}>
        Look again
      </button>
      <ul>
        {changes.slice(0, 10).map(({ seq, text }) => (
          <li key={seq}>
            {text} <span class="seq">#{seq}</span>
          </li>
        ))}
        {changes.length > 10 && <li>and {changes.length - 10} more</li>}
      </ul>
    </div>
  )
}
