import { useState } from 'preact/hooks'
import { signIn } from '../api/client.ts'
import { wordsFor } from '../loading.ts'
import { Problem } from '../parts/common.tsx'

/** Asks for an API key. */
export function SignIn({ onDone }: { onDone(): void }) {
  const [key, setKey] = useState('')
  const [problem, setProblem] = useState<string>()
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault()
    try {
      await signIn(key.trim())
      onDone()
    } catch (error) {
      setProblem(wordsFor(error))
    }
  }
  return (
    <main class="sign-in">
      <h1>pawl</h1>
      <form onSubmit={(event) => void submit(event)}>
        <label>
          API key
          <input type="password" autocomplete="current-password" required value={key} onInput={(event) => setKey(event.currentTarget.value)} />
        </label>
        <button type="submit" class="primary">
          Sign in
        </button>
        <Problem text={problem} />
      </form>
      <p class="aside">
        Make a key with <code>pawl keys create ann --scopes read,approve,operate</code>. The browser keeps it for twelve hours, where no script can
        read it.
      </p>
    </main>
  )
}
