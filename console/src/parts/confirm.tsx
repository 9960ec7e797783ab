// A button for what cannot be taken back: it asks before it acts.
import { useState } from 'preact/hooks'

interface ConfirmProps {
  text: string
  /** What happens, as a question. */
  question: string
  disabled?: boolean
  onConfirm(): void
}

export function Confirm({ text, question, disabled, onConfirm }: ConfirmProps) {
  const [isAsking, setAsking] = useState(false)
  if (!isAsking)
    return (
      <button type="button" disabled={disabled} onClick={() => setAsking(true)}>
        {text}
      </button>
    )
  return (
    <span class="confirm" role="group" aria-label={question}>
      <span>{question}</span>{' '}
      <button
        type="button"
        class="primary"
        disabled={disabled}
        onClick={() => {
          setAsking(false)
          onConfirm()
        }}
      >
        {text}
      </button>{' '}
      <button type="button" onClick={() => setAsking(false)}>
        Cancel
      </button>
    </span>
  )
}
