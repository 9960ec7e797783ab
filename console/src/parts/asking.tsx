// The answer to a question that a tool asks the user during a call.
import type { QuestionReply } from '../../../src/session/question-facts.ts'
import { contentOf, fieldsOf, type QuestionField, type ShownQuestion, webAddress } from '../session/question-form.ts'

interface AskingProps {
  question: ShownQuestion
  isSending: boolean
  onReply(reply: QuestionReply): void
}

export default function Asking({ question: { message, schema, url }, isSending, onReply }: AskingProps) {
  const fields = fieldsOf(schema ?? {})
  const address = url === undefined ? undefined : webAddress(url)
  const accept = (event: SubmitEvent): void => {
    event.preventDefault()
    const entered = new FormData(event.currentTarget as HTMLFormElement)
    onReply({ action: 'accept', ...(url === undefined && { content: contentOf(fields, entered) }) })
  }
  return (
    <form class="asking" aria-label={`Answer to: ${message}`} noValidate onSubmit={accept}>
      {fields.map((field) => (
        <label key={field.name} class={field.kind === 'yes' ? 'line' : 'field'}>
          <span>
            {field.label}
            {!field.isRequired && field.kind !== 'yes' && <span class="aside"> (optional)</span>}
          </span>
          <Control field={field} />
          {field.hint !== '' && <span class="aside">{field.hint}</span>}
        </label>
      ))}
      {address && (
        <a href={address.href} target="_blank" rel="noopener noreferrer">
          Open {address.host}
        </a>
      )}
      {url !== undefined && !address && <p class="bad">This address cannot be opened: {url}</p>}
      <div class="line">
        {(url === undefined || address) && (
          <button type="submit" class="primary" disabled={isSending}>
            {url === undefined ? 'Answer' : 'Done'}
          </button>
        )}
        <button type="button" disabled={isSending} onClick={() => onReply({ action: 'decline' })}>
          Decline
        </button>
      </div>
    </form>
  )
}

function Control({ field: { name, kind, choices, initial, isRequired } }: { field: QuestionField }) {
  if (kind === 'yes') return <input type="checkbox" name={name} value="true" defaultChecked={initial.length > 0} />
  if (kind === 'choice' || kind === 'choices')
    return (
      <select name={name} multiple={kind === 'choices'} aria-required={isRequired}>
        {kind === 'choice' && <option value="" />}
        {choices.map(({ value, title }) => (
          <option key={value} value={value} selected={initial.includes(value)}>
            {title}
          </option>
        ))}
      </select>
    )
  return <input type="text" name={name} inputMode={kind === 'number' ? 'decimal' : undefined} defaultValue={initial[0]} aria-required={isRequired} />
}
