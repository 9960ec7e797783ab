// A new schedule.
import { useState } from 'preact/hooks'
import { answered, api } from '../api/client.ts'
import { Form, KindField, SelectField, TextField, textOf } from './form.tsx'

const NAMES = {
  fields: ['id', 'agent', 'message', 'times', 'timeZone', 'session', 'overlap'],
  members: { every: 'times', cron: 'times' },
  codes: { schedule_exists: 'id', invalid_schedule: 'times', never_due: 'times' },
}

/** What happens to a message that is due while the session is busy. */
export const WHILE_BUSY: Readonly<Record<string, string>> = {
  queue: 'the message waits',
  skip: 'the message is skipped',
  interrupt: 'the run is interrupted',
}

export function NewSchedule({ onDone }: { onDone(): void }) {
  const [kind, setKind] = useState<'every' | 'cron'>('every')
  const create = (fields: FormData): Promise<unknown> => {
    const optional = { timeZone: kind === 'cron' ? textOf(fields, 'timeZone') : undefined, session: textOf(fields, 'session') }
    const body = {
      id: textOf(fields, 'id') ?? '',
      agent: textOf(fields, 'agent') ?? '',
      message: textOf(fields, 'message') ?? '',
      [kind]: textOf(fields, 'times') ?? '',
      overlap: textOf(fields, 'overlap'),
      paused: fields.has('paused'),
      ...optional,
    }
    return answered(api.POST('/v1/schedules', { body: body as never }))
  }
  return (
    <Form label="New schedule" submit="Create the schedule" names={NAMES} send={create} onDone={onDone}>
      {(problems) => (
        <>
          <TextField name="id" label="Id" problems={problems} />
          <TextField name="agent" label="Agent" problems={problems} />
          <TextField name="message" label="Message" rows={2} problems={problems} />
          <KindField label="When" kind={kind} choices={{ every: 'at an interval', cron: 'by a cron expression' }} onChoose={setKind} />
          <TextField
            name="times"
            label={kind === 'every' ? 'Interval' : 'Cron expression'}
            placeholder={kind === 'every' ? '1h' : '0 9 * * MON-FRI'}
            problems={problems}
          />
          {kind === 'cron' && <TextField name="timeZone" label="Time zone" placeholder="UTC" problems={problems} />}
          <TextField name="session" label="Session" placeholder="a new one each time" problems={problems} />
          <SelectField name="overlap" label="While the session is busy" choices={WHILE_BUSY} problems={problems} />
          <label>
            <input type="checkbox" name="paused" /> begins paused
          </label>
        </>
      )}
    </Form>
  )
}
