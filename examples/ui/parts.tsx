// The parts of a message: text, files, and calls of tools, which are cards.
import type { FileUIPart, ToolUIPart, UIMessage } from 'ai'
import { useState } from 'react'

export function FilePart({ part: { mediaType, filename, url } }: { part: FileUIPart }) {
  if (mediaType.startsWith('image/')) return <img src={url} alt={filename ?? 'An image'} />
  return (
    <a className="file" href={url} download={filename ?? 'file'}>
      {filename ?? mediaType}
    </a>
  )
}

/** What a call's state means for the user, and its tone. */
const STATES: Record<ToolUIPart['state'], [text: string, tone: 'busy' | 'warn' | 'good' | 'bad' | 'quiet']> = {
  'input-streaming': ['is being prepared', 'busy'],
  'input-available': ['in progress', 'busy'],
  'approval-requested': ['needs your decision', 'warn'],
  'approval-responded': ['decided', 'busy'],
  'output-available': ['done', 'good'],
  'output-error': ['failed', 'bad'],
  'output-denied': ['denied', 'quiet'],
}

/** `refund_order` as people say it. */
function titleOf(tool: string): string {
  const words = tool.replaceAll(/[._-]+/g, ' ').trim()
  return words.charAt(0).toUpperCase() + words.slice(1)
}

/** The members of an object whose values are short. */
function fieldsOf(input: unknown): [name: string, value: string | number | boolean][] {
  if (typeof input !== 'object' || input === null) return []
  return Object.entries(input).filter((entry): entry is [string, string | number | boolean] =>
    ['string', 'number', 'boolean'].includes(typeof entry[1]),
  )
}

function Fields({ of }: { of: unknown }) {
  const fields = fieldsOf(of)
  if (fields.length === 0) return null
  return (
    <dl>
      {fields.map(([name, value]) => (
        <div key={name}>
          <dt>{titleOf(name)}</dt>
          <dd dir="auto" className={typeof value === 'number' ? 'figure' : ''}>
            {typeof value === 'number' ? value.toLocaleString() : String(value)}
          </dd>
        </div>
      ))}
    </dl>
  )
}

interface CallProps {
  tool: string
  state: ToolUIPart['state']
  input: unknown
  output?: unknown
  /** `output` is what the agent that answers the call has said so far. */
  preliminary?: boolean | undefined
  errorText?: string | undefined
  /** Why a person must decide. */
  reason?: string | undefined
  /** Present while the call needs the user's decision. */
  decide?: ((approved: boolean) => Promise<void>) | undefined
}

/** A call: what it is about to do, before one approves it; afterwards what it did, for those who want to know. */
export function Call({ tool, state, input, output, preliminary, errorText, reason, decide }: CallProps) {
  const [text, tone] = STATES[preliminary ? 'input-available' : state]
  return (
    <section className="call" data-state={state} aria-label={titleOf(tool)}>
      <header>
        <strong>{titleOf(tool)}</strong> <span className={`state ${tone}`}>{text}</span>
      </header>
      {state === 'approval-requested' && reason !== undefined && <div>{reason}</div>}
      {state === 'approval-requested' && decide ? <Approval input={input} decide={decide} /> : <Fields of={input} />}
      {errorText !== undefined && <div className="bad">{errorText}</div>}
      {preliminary && <Work of={output as UIMessage} />}
      {!preliminary && output !== undefined && output !== null && (
        <details>
          <summary>Result</summary>
          <code>{typeof output === 'string' ? output : JSON.stringify(output, null, 2)}</code>
        </details>
      )}
    </section>
  )
}

/** What an agent has said so far. It may have called other agents, whose work is in the cards of these calls. */
function Work({ of: { parts } }: { of: UIMessage }) {
  return (
    <div className="work">
      {parts.map((part, n) => {
        if (part.type === 'text')
          return (
            <p key={n} dir="auto">
              {part.text}
            </p>
          )
        if (!('toolCallId' in part) || part.type === 'dynamic-tool') return null
        const { type, state, input, output, preliminary, errorText } = part as ToolUIPart & { preliminary?: boolean }
        return <Call key={n} tool={type.replace(/^tool-/, '')} {...{ state, input, output, preliminary, errorText }} />
      })}
    </div>
  )
}

/** The decision is about these arguments: the server refuses it if they have changed. */
function Approval({ input, decide }: { input: unknown; decide(approved: boolean): Promise<void> }) {
  const [isSent, setSent] = useState(false)
  const send = async (approved: boolean): Promise<void> => {
    setSent(true)
    await decide(approved)
    setSent(false)
  }
  return (
    <div className="approval">
      <Fields of={input} />
      <details>
        <summary>All arguments</summary>
        <pre>{JSON.stringify(input, null, 2)}</pre>
      </details>
      <div className="buttons">
        <button type="button" className="primary" disabled={isSent} onClick={() => void send(true)}>
          Approve
        </button>
        <button type="button" disabled={isSent} onClick={() => void send(false)}>
          Deny
        </button>
      </div>
    </div>
  )
}
