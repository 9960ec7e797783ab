// Raising the limits that stopped a session, to what its next model call needs or to more.
import { useState } from 'preact/hooks'
import type { BudgetRaise } from '../../../src/session/spending/spend.ts'
import { useActing } from '../acting.ts'
import { answered, api } from '../api/client.ts'
import { Problem } from './common.tsx'

interface RaiseProps {
  session: string
  /** The limits that suffice. */
  limits: readonly BudgetRaise[]
}

export default function Raise({ session, limits }: RaiseProps) {
  return (
    <div class="recover">
      {limits.flatMap(({ scope, maxUsd, maxTotalTokens }) => [
        ...(maxUsd === undefined ? [] : [<Limit key={`${scope} usd`} session={session} scope={scope} unit="maxUsd" suffices={maxUsd} />]),
        ...(maxTotalTokens === undefined
          ? []
          : [<Limit key={`${scope} tokens`} session={session} scope={scope} unit="maxTotalTokens" suffices={maxTotalTokens} />]),
      ])}
    </div>
  )
}

interface LimitProps {
  session: string
  scope: BudgetRaise['scope']
  unit: 'maxUsd' | 'maxTotalTokens'
  suffices: number
}

function Limit({ session, scope, unit, suffices }: LimitProps) {
  const [text, setText] = useState(String(suffices))
  const { act, isSending, problem } = useActing()
  const name = `New limit of the ${scope} in ${unit === 'maxUsd' ? 'US dollars' : 'tokens'}`
  // What is not a number, the service refuses.
  const limit = Number.isNaN(Number(text)) || text.trim() === '' ? text : Number(text)
  const raise = (): Promise<unknown> =>
    answered(api.POST('/v1/sessions/{session}/raise', { params: { path: { session } }, body: { scope, [unit]: limit } as never }))
  return (
    <div class="line">
      <label>
        {name} <input type="text" inputMode="decimal" size={10} value={text} onInput={(event) => setText(event.currentTarget.value)} />
      </label>
      <button type="button" class="primary" disabled={isSending} onClick={() => act(raise)}>
        Raise the limit
      </button>
      <span class="aside">the session then continues where it stopped</span>
      <Problem text={problem} />
    </div>
  )
}
