// Approving a call with other arguments than the model's, with what changes.
import { useState } from 'preact/hooks'
import { changesOf } from '../session/argument-changes.ts'

interface EditingProps {
  input: unknown
  isSending: boolean
  onApprove(input: unknown): void
}

export default function EditArguments({ input, isSending, onApprove }: EditingProps) {
  const [text, setText] = useState(() => JSON.stringify(input, null, 2))
  const edited = parsed(text)
  const changes = edited && changesOf(input, edited.value)
  return (
    <div class="editing">
      <textarea
        aria-label="Arguments, as JSON"
        aria-invalid={!edited}
        spellcheck={false}
        rows={Math.min(20, text.split('\n').length + 1)}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      {!edited && <p class="bad">This is not JSON.</p>}
      {changes?.length === 0 && <p class="aside">The same arguments.</p>}
      {changes && changes.length > 0 && (
        <table aria-label="Changes">
          <thead>
            <tr>
              <th scope="col">Argument</th>
              <th scope="col">As requested</th>
              <th scope="col">Yours</th>
            </tr>
          </thead>
          <tbody>
            {changes.map(({ path, before, after }) => (
              <tr key={path}>
                <th scope="row">
                  <code>{path === '' ? 'all' : path}</code>
                </th>
                <td>{before === undefined ? <span class="aside">absent</span> : <del class="value">{JSON.stringify(before)}</del>}</td>
                <td>{after === undefined ? <span class="aside">removed</span> : <ins class="value">{JSON.stringify(after)}</ins>}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <button
        type="button"
        class="primary"
        disabled={isSending || !edited || changes?.length === 0}
        onClick={() => edited && onApprove(edited.value)}
      >
        Approve with these arguments
      </button>
    </div>
  )
}

function parsed(text: string): { value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) }
  } catch {
    return undefined
  }
}
