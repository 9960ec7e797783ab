// A budget that sessions share.
import { useState } from 'preact/hooks'
import { answered, api } from '../api/client.ts'
import { Form, KindField, SelectField, TextField, textOf } from './form.tsx'

const NAMES = { fields: ['name', 'maxUsd', 'per', 'timeZone', 'onOutage'], members: { tag: 'name', agent: 'name' } }
const ON_OUTAGE = { continue: 'continue, and count later', stop: 'stop before the next model call' }

export function NewBudget({ onDone }: { onDone(): void }) {
  const [kind, setKind] = useState<'tag' | 'agent'>('tag')
  const set = (fields: FormData): Promise<unknown> => {
    const usd = textOf(fields, 'maxUsd')
    const body = {
      [kind]: textOf(fields, 'name') ?? '',
      // What is not a number, the service refuses.
      maxUsd: usd === undefined || Number.isNaN(Number(usd)) ? usd : Number(usd),
      per: textOf(fields, 'per'),
      onOutage: textOf(fields, 'onOutage'),
      timeZone: textOf(fields, 'timeZone'),
    }
    return answered(api.POST('/v1/budgets', { body: body as never }))
  }
  return (
    <Form label="Set a budget" submit="Set the budget" names={NAMES} send={set} onDone={onDone}>
      {(problems) => (
        <>
          <p class="aside">Replaces the earlier budget of the same tag or agent for the same period.</p>
          <KindField label="Whose" kind={kind} choices={{ tag: 'of sessions with a tag', agent: 'of an agent' }} onChoose={setKind} />
          <TextField name="name" label={kind === 'tag' ? 'Tag' : 'Agent'} problems={problems} />
          <TextField name="maxUsd" label="US dollars" inputMode="decimal" problems={problems} />
          <SelectField name="per" label="For each" choices={{ day: 'day', month: 'month' }} problems={problems} />
          <TextField name="timeZone" label="Time zone" placeholder="UTC" problems={problems} />
          <SelectField name="onOutage" label="While Postgres is unavailable" choices={ON_OUTAGE} problems={problems} />
        </>
      )}
    </Form>
  )
}
