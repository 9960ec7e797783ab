// `pawl schedules create|list|show|times|pause|unpause|trigger|delete`: messages to sessions at regular times.
import { Command } from 'commander'
import type { NewSchedule, Schedule, Schedules } from '../../client/admin/schedules.ts'
import { defined } from '../../session/defined.ts'
import { aboutDeployment, type DeploymentOptions, onDeployment } from '../connecting.ts'
import { here } from '../here.ts'
import { byOption, jsonOf, jsonOption, limitOption, option, reasonOption, severalOf } from '../options.ts'
import { type ListingOptions, paged, pageOf, say, showList, timeOf } from '../queries.ts'
import { SUGGESTIONS } from '../../session/suggestions.ts'
import { type Column, linesOfTable } from '../table.ts'

interface ScheduleFlags extends DeploymentOptions {
  json?: true
}

interface CreateFlags extends ScheduleFlags, Omit<NewSchedule, 'id' | 'message' | 'cron' | 'tags'> {
  cron?: string[]
  tag?: string[]
}

interface SaidFlags extends ScheduleFlags {
  by: string
  reason?: string
}

export function schedulesCommand(): Command {
  const schedules = new Command('schedules').description('send messages to sessions at regular times')
  for (const command of [create(), list(), show(), times(), pause(), unpause(), trigger(), remove()]) schedules.addCommand(command)
  return schedules
}

const onSchedules = <T>(where: DeploymentOptions, work: (schedules: Schedules) => Promise<T>): Promise<T> =>
  onDeployment(where, (pawl) => work(pawl.schedules))

function create(): Command {
  const command = new Command('create')
    .description('create a schedule: each occurrence sends the message, once')
    .argument('<id>', 'its id: 1 to 170 of [A-Za-z0-9._:/@-]')
    .argument('<message>', 'what each occurrence sends')
    .requiredOption('--agent <name>', 'the agent; required')
  for (const one of [
    option('--every <duration>', 'a fixed interval, such as 1h, counted from 1970'),
    option<string[]>('--cron <expression>', "a cron expression, such as '0 9 * * MON-FRI'; repeat it for several", (text, all = []) => [
      ...all,
      text,
    ]),
    option('--calendar <json>', 'times that match, such as {"hour":9,"dayOfWeek":"MONDAY"}', jsonOf),
    option('--time-zone <zone>', 'an IANA time zone, such as Europe/Berlin (default: UTC)'),
    option('--session <id>', "the session that gets the messages (default: 'new', each occurrence has its own)"),
    option('--overlap <how>', 'what an occurrence does while its session is busy: queue, skip or interrupt (default: queue)'),
    option('--catch-up <duration>', 'how late an occurrence may be started after an outage of Temporal (default: 5m)'),
    option('--deadline <duration>', 'how long each answer may take (default: no limit)'),
    option('--context <json>', 'the context of sessions that an occurrence starts', jsonOf),
    option('--tag <tags>', 'tags of sessions that an occurrence starts, separated by commas', severalOf),
    option('--paused', 'begin paused'),
    byOption(),
    jsonOption(),
  ]) {
    command.addOption(one)
  }
  return aboutDeployment(command).action(async (id: string, message: string, flags: CreateFlags) => {
    const {
      json,
      agent,
      every,
      cron,
      calendar,
      timeZone,
      session,
      overlap,
      catchUp,
      deadline,
      context,
      tag: tags,
      paused,
      by,
      ...where
    } = flags
    const more = defined({ every, cron, calendar, timeZone, session, overlap, catchUp, deadline, context, tags, paused, by })
    const made = await onSchedules(where, (schedules) => schedules.create({ id, message, agent, ...more } as NewSchedule))
    const next = made.next[0] ? `; it is due next at ${timeOf(made.next[0])}` : ''
    say(json ? JSON.stringify({ event: 'schedule_created', ...made }) : `schedule ${id} is created${next}`)
  })
}

const dueText = ({ every, cron, calendar, timeZone }: Schedule): string => {
  if (every !== undefined) return `every ${every}`
  return `${cron === undefined ? JSON.stringify(calendar) : [cron].flat().join(', ')} ${timeZone}`
}

const COLUMNS: Column<Schedule>[] = [
  { name: 'id', of: ({ id }) => id, whole: true },
  { name: 'agent', of: ({ agent }) => agent },
  { name: 'session', of: ({ session }) => session ?? 'new' },
  { name: 'due', of: dueText },
  { name: 'overlap', of: ({ overlap }) => overlap },
  { name: 'next', of: ({ next, paused }) => (paused ? 'paused' : timeOf(next[0] ?? null)) },
]

function list(): Command {
  return paged(aboutDeployment(new Command('list').description('list the schedules')))
    .option('--id-prefix <prefix>', 'only those whose ids begin with this, such as those of a tenant')
    .addOption(jsonOption())
    .action(async (options: ScheduleFlags & ListingOptions & { idPrefix?: string }) => {
      const query = { ...pageOf(options), ...defined({ idPrefix: options.idPrefix }) }
      await onSchedules(options, (schedules) => showList(options, 'schedules', schedules.list(query), COLUMNS))
    })
}

/** A command about one schedule. */
const about = (name: string, description: string): Command =>
  aboutDeployment(
    new Command(name).description(description).argument('<id>', `as \`${here(SUGGESTIONS.listSchedules())}\` shows it`),
  ).addOption(jsonOption())

function show(): Command {
  return about('show', 'show a schedule, its next times and its newest occurrences').action(
    async (id: string, { json, ...where }: ScheduleFlags) => {
      const schedule = await onSchedules(where, (schedules) => schedules.get(id))
      if (json) return say(JSON.stringify(schedule))
      for (const line of linesOfTable(COLUMNS, [schedule])) say(line)
      for (const time of schedule.next) say(`next    ${timeOf(time)}`)
      for (const { time, startedAt } of schedule.recent) say(`started ${timeOf(startedAt)} for ${timeOf(time)}`)
      if (schedule.note !== null) say(`note    ${schedule.note}`)
    },
  )
}

function times(): Command {
  return about('times', 'the times at which a schedule is due')
    .addOption(limitOption('times'))
    .action(async (id: string, { json, limit, ...where }: ScheduleFlags & { limit: number }) => {
      const due = await onSchedules(where, (schedules) => schedules.times(id, { limit }))
      for (const time of due) say(json ? JSON.stringify(time) : (timeOf(time) ?? ''))
    })
}

function changing(name: 'pause' | 'unpause', description: string): Command {
  return about(name, description)
    .addOption(byOption())
    .addOption(reasonOption())
    .action(async (id: string, { json, by, reason, ...where }: SaidFlags) => {
      await onSchedules(where, (schedules) => schedules[name](id, { by, ...defined({ reason }) }))
      say(json ? JSON.stringify({ event: `schedule_${name}d`, id }) : `schedule ${id} is ${name}d`)
    })
}

const pause = (): Command => changing('pause', 'start nothing until `unpause`; what would have been due meanwhile is not made up for')
const unpause = (): Command => changing('unpause', 'let a schedule continue with its next time')

function trigger(): Command {
  return about('trigger', 'start an occurrence now').action(async (id: string, { json, ...where }: ScheduleFlags) => {
    await onSchedules(where, (schedules) => schedules.trigger(id))
    say(json ? JSON.stringify({ event: 'schedule_triggered', id }) : `schedule ${id} sends its message now`)
  })
}

function remove(): Command {
  return about('delete', 'delete a schedule; sessions and their messages stay').action(
    async (id: string, { json, ...where }: ScheduleFlags) => {
      await onSchedules(where, (schedules) => schedules.delete(id))
      say(json ? JSON.stringify({ event: 'schedule_deleted', id }) : `schedule ${id} is deleted`)
    },
  )
}
