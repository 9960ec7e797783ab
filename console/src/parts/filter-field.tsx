import { useEffect, useState } from 'preact/hooks'

/** A filter that is entered as text. What a person is typing stays as it is while the page reads its list again. */
export function FilterField({ label, value, onEnter }: { label: string; value: string; onEnter(value: string): void }) {
  const [text, setText] = useState(value)
  useEffect(() => setText(value), [value])
  return (
    <input
      type="search"
      aria-label={label}
      placeholder={label.toLowerCase()}
      value={text}
      onInput={(event) => setText(event.currentTarget.value)}
      onChange={(event) => onEnter(event.currentTarget.value.trim())}
    />
  )
}
