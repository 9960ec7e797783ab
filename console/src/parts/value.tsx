// What models, tools and users wrote: always text, never HTML.
import { useState } from 'preact/hooks'

/** Longer values are folded. */
const LONG = 600
const BEGINNING = 160
/** More than this is shown only on request: laying it out takes a browser seconds. */
const HUGE = 100_000
/** An object with no more members, all short, is shown as a list of them. */
const MAX_FIELDS = 8
const MAX_FIELD = 200

type Scalar = string | number | boolean | null

const texts = new WeakMap<object, string>()

function textOf(value: unknown): string {
  if (typeof value === 'string') return value
  if (typeof value !== 'object' || value === null) return String(value)
  const known = texts.get(value)
  if (known !== undefined) return known
  const text = JSON.stringify(value, null, 2)
  texts.set(value, text)
  return text
}

const isScalar = (value: unknown): value is Scalar => value === null || ['string', 'number', 'boolean'].includes(typeof value)

/** The members of a small flat object. */
function fieldsOf(value: unknown): [name: string, value: Scalar][] | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined
  const members = Object.entries(value)
  const isSmall = members.length > 0 && members.length <= MAX_FIELDS
  return isSmall && members.every(([, one]) => isScalar(one) && String(one).length <= MAX_FIELD) ? members : undefined
}

/** Amounts in cents have many digits, and people decide on them. */
const GROUPED = 10_000
const shown = (value: Scalar): string =>
  Number.isSafeInteger(value) && Math.abs(value as number) >= GROUPED ? (value as number).toLocaleString('en') : String(value)

/** A value, as a list of its members, as JSON or as text. Long ones are folded. */
export function Value({ of }: { of: unknown }) {
  const fields = fieldsOf(of)
  if (fields)
    return (
      <dl class="fields">
        {fields.map(([name, value]) => (
          <div key={name}>
            <dt dir="auto">{name}</dt>
            <dd class={typeof value === 'number' ? 'value figure' : 'value'} dir="auto">
              {shown(value)}
            </dd>
          </div>
        ))}
      </dl>
    )
  const text = textOf(of)
  if (text.length <= LONG)
    return (
      <pre class="value" dir="auto">
        {text}
      </pre>
    )
  return <Folded text={text} />
}

function Folded({ text }: { text: string }) {
  const [isOpen, setOpen] = useState(false)
  const [isWhole, setWhole] = useState(false)
  const shown = isWhole ? text : text.slice(0, HUGE)
  return (
    <details class="long" open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <span class="value" dir="auto">
          {text.slice(0, BEGINNING)}…
        </span>{' '}
        <span class="more">{text.length.toLocaleString('en')} characters</span>
      </summary>
      {isOpen && (
        <pre class="value" dir="auto" tabIndex={0} role="region" aria-label="The whole value">
          {shown}
        </pre>
      )}
      {isOpen && shown.length < text.length && (
        <button type="button" onClick={() => setWhole(true)}>
          Show the other {(text.length - shown.length).toLocaleString('en')} characters
        </button>
      )}
    </details>
  )
}
