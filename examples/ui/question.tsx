// A question that a tool asks the user: a form for its schema, or a link to the page where the user answers.
import type { UiMessage } from 'pawl/ui'
import { useState } from 'react'

/** What a message says about a question. */
export type ToolQuestion = Extract<UiMessage['parts'][number], { type: 'data-question' }>['data']

/** What the user replies. */
export interface Reply {
  action: 'accept' | 'decline'
  content?: Record<string, unknown>
}

interface Choice {
  const: string
  title?: string
}

/** A member of a question's schema: a text, a number, a boolean, a choice, or several choices. */
interface Field {
  type: 'string' | 'number' | 'integer' | 'boolean' | 'array'
  title?: string
  description?: string
  default?: string | number | boolean | string[]
  format?: string
  minimum?: number
  maximum?: number
  minLength?: number
  maxLength?: number
  enum?: string[]
  enumNames?: string[]
  oneOf?: Choice[]
  items?: { enum?: string[]; anyOf?: Choice[] }
}

const INPUT_TYPES: Record<string, string> = { email: 'email', uri: 'url', date: 'date' }
const REPLIED = { accept: 'answered', decline: 'declined', cancel: 'dismissed' }

function choicesOf({ enum: values, enumNames, oneOf, items }: Field): Choice[] | undefined {
  const named = oneOf ?? items?.anyOf
  return named ?? (values ?? items?.enum)?.map((value, n) => ({ const: value, title: enumNames?.[n] ?? value }))
}

function FieldInput({ name, field, required }: { name: string; field: Field; required: boolean }) {
  const { type, format, minimum: min, maximum: max, minLength, maxLength, default: initial } = field
  if (type === 'boolean') return <input name={name} type="checkbox" defaultChecked={initial === true} />
  const given = typeof initial === 'boolean' ? undefined : initial
  const choices = choicesOf(field)
  if (choices)
    return (
      <select name={name} required={required} multiple={type === 'array'} defaultValue={given}>
        {type !== 'array' && <option value="" />}
        {choices.map(({ const: value, title }) => (
          <option key={value} value={value}>
            {title ?? value}
          </option>
        ))}
      </select>
    )
  if (type === 'number' || type === 'integer')
    return <input name={name} required={required} type="number" step={type === 'integer' ? 1 : 'any'} {...{ min, max }} defaultValue={given} />
  return <input name={name} required={required} type={INPUT_TYPES[format ?? ''] ?? 'text'} {...{ minLength, maxLength }} defaultValue={given} />
}

/** What the user has entered. Fields that were left empty are not part of it. */
function contentOf(form: HTMLFormElement, fields: Record<string, Field>): Record<string, unknown> {
  const entered = new FormData(form)
  const members = Object.entries(fields).flatMap(([name, { type }]): [string, unknown][] => {
    if (type === 'boolean') return [[name, entered.has(name)]]
    const values = entered.getAll(name).filter((value) => value !== '')
    if (values.length === 0) return []
    if (type === 'array') return [[name, values]]
    return [[name, type === 'string' ? values[0] : Number(values[0])]]
  })
  return Object.fromEntries(members)
}

/** The address, if it is one of a page: anything else, such as a script, is not for a link. */
function webAddress(url: string): URL | undefined {
  const address = URL.canParse(url) ? new URL(url) : undefined
  return address && /^https?:$/.test(address.protocol) ? address : undefined
}

/** `isOpen`: its call still waits for the reply. `reply` rejects with a text for the user. */
export function Question({
  question: { from, message, schema, url, answered },
  isOpen,
  reply,
}: {
  question: ToolQuestion
  isOpen: boolean
  reply(given: Reply): Promise<void>
}) {
  const [isSent, setSent] = useState(false)
  const [problem, setProblem] = useState<string>()
  if (!isOpen)
    return (
      <div className="question">
        {from} asked: {message} ({answered ? REPLIED[answered] : 'not answered'})
      </div>
    )

  const { properties = {}, required = [] } = (schema ?? {}) as { properties?: Record<string, Field>; required?: string[] }
  const address = url === undefined ? undefined : webAddress(url)

  /** Once the reply is recorded, the page shows the question as answered. */
  async function send(given: Reply): Promise<void> {
    setSent(true)
    setProblem(undefined)
    try {
      await reply(given)
    } catch (error) {
      setProblem((error as Error).message)
      setSent(false)
    }
  }

  return (
    <form
      className="question"
      onSubmit={(event) => {
        event.preventDefault()
        void send({ action: 'accept', ...(schema && { content: contentOf(event.currentTarget, properties) }) })
      }}
    >
      <fieldset disabled={isSent}>
        <legend>
          {from} asks: {message}
        </legend>
        {Object.entries(properties).map(([name, field]) => (
          <label key={name}>
            {field.title ?? name}
            {required.includes(name) && ' *'} <FieldInput name={name} field={field} required={required.includes(name)} />{' '}
            {field.description && <small>{field.description}</small>}
          </label>
        ))}
        {address && (
          <a href={address.href} target="_blank" rel="noopener noreferrer">
            Open {address.host}
          </a>
        )}
        {url !== undefined && !address && <em>This address cannot be opened.</em>}
        {(url === undefined || address) && <button type="submit">{url === undefined ? 'Answer' : 'Done'}</button>}
        <button type="button" onClick={() => void send({ action: 'decline' })}>
          Decline
        </button>
        {problem !== undefined && <div role="alert">{problem}</div>}
      </fieldset>
    </form>
  )
}
