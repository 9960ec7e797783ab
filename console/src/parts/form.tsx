// Forms for what a person creates. The service checks them, and what it says is shown at the field.
import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { Refused } from '../api/client.ts'
import { whyNotDone } from '../loading.ts'
import { fieldProblems, type FormNames } from '../session/field-problems.ts'
import { Problem } from './common.tsx'

type Problems = Readonly<Record<string, string>>

interface FormProps {
  label: string
  submit: string
  names: FormNames
  /** Sends the request. */
  send(fields: FormData): Promise<unknown>
  onDone(): void
  children(problems: Problems): ComponentChildren
}

export function Form({ label, submit, names, send, onDone, children }: FormProps) {
  const [problems, setProblems] = useState<Problems>({})
  const [isSending, setSending] = useState(false)
  const onSubmit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault()
    setSending(true)
    try {
      await send(new FormData(event.currentTarget as HTMLFormElement))
      setProblems({})
      onDone()
    } catch (error) {
      setProblems(error instanceof Refused ? fieldProblems(error, names) : { '': whyNotDone(error) })
    }
    setSending(false)
  }
  return (
    <form class="going-back" aria-label={label} noValidate onSubmit={(event) => void onSubmit(event)}>
      {children(problems)}
      <div class="line">
        <button type="submit" class="primary" disabled={isSending}>
          {submit}
        </button>
      </div>
      <Problem text={problems['']} />
    </form>
  )
}

interface FieldProps {
  name: string
  label: string
  problems: Problems
}

interface FrameProps extends FieldProps {
  /** The control, with these attributes. */
  children(attributes: { id: string; name: string; 'aria-invalid': boolean; 'aria-describedby': string | undefined }): ComponentChildren
}

function Field({ name, label, problems, children }: FrameProps) {
  const id = `field-${name}`
  const problem = problems[name]
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children({ id, name, 'aria-invalid': problem !== undefined, 'aria-describedby': problem === undefined ? undefined : `${id}-problem` })}
      {problem !== undefined && (
        <p class="bad" id={`${id}-problem`} role="alert">
          {problem}
        </p>
      )}
    </div>
  )
}

/** `rows`: it has several lines. */
export function TextField({ placeholder, inputMode, rows, ...field }: FieldProps & { placeholder?: string; inputMode?: 'decimal'; rows?: number }) {
  return (
    <Field {...field}>
      {(attributes) =>
        rows === undefined ? (
          <input type="text" placeholder={placeholder} inputMode={inputMode} {...attributes} />
        ) : (
          <textarea rows={rows} placeholder={placeholder} {...attributes} />
        )
      }
    </Field>
  )
}

/** `choices`: what each value means. */
export function SelectField({ choices, ...field }: FieldProps & { choices: Readonly<Record<string, string>> }) {
  return (
    <Field {...field}>
      {(attributes) => (
        <select {...attributes}>
          {Object.entries(choices).map(([value, title]) => (
            <option key={value} value={value}>
              {title}
            </option>
          ))}
        </select>
      )}
    </Field>
  )
}

interface KindFieldProps<K extends string> {
  label: string
  kind: K
  /** What each kind is. */
  choices: Readonly<Record<NoInfer<K>, string>>
  onChoose: (kind: NoInfer<K>) => void
}

/** A choice that decides which other fields there are. */
export function KindField<K extends string>({ label, kind, choices, onChoose }: KindFieldProps<K>) {
  return (
    <div class="line" role="radiogroup" aria-label={label}>
      {(Object.entries(choices) as [K, string][]).map(([one, title]) => (
        <label key={one}>
          <input type="radio" name="kind" checked={kind === one} onChange={() => onChoose(one)} /> {title}
        </label>
      ))}
    </div>
  )
}

/** What was entered; undefined: nothing. */
export function textOf(fields: FormData, name: string): string | undefined {
  const value = fields.get(name)
  return typeof value === 'string' && value.trim() !== '' ? value.trim() : undefined
}
