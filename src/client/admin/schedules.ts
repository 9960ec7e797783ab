// Schedules: messages to sessions at regular times. Each is a schedule of Temporal, whose occurrences start a small workflow.
import { randomUUID } from 'node:crypto'
import {
  type CalendarSpec,
  type Client,
  isGrpcServiceError,
  ScheduleAlreadyRunning,
  type ScheduleDescription,
  ScheduleNotFoundError,
  type ScheduleSpec,
  type ScheduleSummary,
  ServiceError,
} from '@temporalio/client'
import { z } from 'zod'
import type { Agent } from '../../agent/agent.ts'
import { onTemporal } from '../../connect/deadline.ts'
import { checkOptions, duration, flag, integer, oneOf, options, text, where } from '../../options/check.ts'
import { ianaTimeZone } from '../../options/shared.ts'
import { BLOB_THRESHOLD_BYTES } from '../../session/blobs.ts'
import type { UserBlock } from '../../session/content.ts'
import { defined } from '../../session/defined.ts'
import type { Duration } from '../../session/duration.ts'
import { isObject, type Json, type JsonObject, jsonBytes } from '../../session/json.ts'
import { numberText } from '../../session/number-text.ts'
import { checkMessage } from '../../session/protocol/incoming.ts'
import { OCCURRENCE_TYPE, type OccurrenceStart, type Overlap, scheduleIn, temporalIdOf } from '../../session/protocol/occurrence.ts'
import { isAgentName, isSessionId, WORKFLOW_TASK_TIMEOUT_MS } from '../../session/protocol/protocol.ts'
import { SUGGESTIONS } from '../../session/suggestions.ts'
import { InvalidOptionError } from '../../options/errors.ts'
import { InvalidMessageError, RequestRefusedError } from '../errors.ts'
import { type List, listOf } from '../queries/list.ts'
import { PAGE, type PageOptions, paging } from '../queries/list-options.ts'
import type { Key, Rows } from '../../store/read/lists/index.ts'
import { checkOpening } from '../session/large-content.ts'
import { requestId } from '../session/request-options.ts'

/** When a schedule is due: one of the three. */
interface Times {
  /** A fixed interval from one second to one year, counted from 1970: `'1h'` is every full hour. */
  every?: Duration
  /** Cron expressions of five to seven fields, or `@daily` and the like. */
  cron?: string | string[]
  /** Times that match a calendar, as in Temporal's SDK: `{ hour: 9, dayOfWeek: { start: 'MONDAY', end: 'FRIDAY' } }`. */
  calendar?: Omit<CalendarSpec, 'comment'> | Omit<CalendarSpec, 'comment'>[]
}

/** A new schedule. */
export interface NewSchedule extends Times {
  /** Its id: 1 to 170 of `[A-Za-z0-9._:/@-]`. */
  id: string
  /** The agent that the sessions talk to, or its name. */
  agent: string | Agent
  /** What each occurrence sends: text, or content blocks, of at most 128,000 bytes of JSON. */
  message: string | UserBlock[]
  /** The IANA time zone of `cron` and `calendar`. Default `'UTC'`. */
  timeZone?: string
  /** The session that gets the messages; `'new'`: each occurrence has its own, `<schedule>:<time>`. Default `'new'`. */
  session?: string
  /**
   * If a run of the session is in progress, or messages wait for one: the message waits as well (`queue`), is rejected with
   * `overlap_skipped` (`skip`), or interrupts the run (`interrupt`). Default `queue`.
   */
  overlap?: Overlap
  /** Occurrences that Temporal could not start in time are started within this time, from 10 seconds. Default `'5m'`. */
  catchUp?: Duration
  /** Time limit for each answer, as for `send`. Default: none. */
  deadline?: Duration
  /** Passed to the run's tools as `ctx.metadata`: at most 16,000 bytes of JSON. Default `{}`. */
  metadata?: JsonObject
  /** Who the sessions are for, as for `pawl.session`. Default `null`. */
  context?: Json
  /** Tags of sessions that an occurrence starts. Default: none. */
  tags?: string[]
  /** Whether it begins paused. Default false. */
  paused?: boolean
  /** Who creates it. Default: not said. */
  by?: string
}

/** A schedule. */
export interface Schedule extends Times {
  /** Its id. */
  id: string
  /** The agent's name. */
  agent: string
  /** The session that gets the messages; null: each occurrence has its own. */
  session: string | null
  /** What an occurrence does while its session is busy. */
  overlap: Overlap
  /** The time zone of `cron` and `calendar`. */
  timeZone: string
  /** Who created it; null: not said. */
  by: string | null
  /** Whether it is paused. */
  paused: boolean
  /** Who paused it or let it continue, and why; null: not said. */
  note: string | null
  /** The next times at which it is due, at most 10; none while it is paused. */
  next: Date[]
  /** The newest occurrences, at most 10: `time` is the one in their ids, `startedAt` when they were started. */
  recent: { time: Date; startedAt: Date }[]
}

/** Which schedules to list. */
export interface ScheduleListOptions extends PageOptions {
  /** Only those whose ids begin with this, such as those of one tenant. Default: all. */
  idPrefix?: string
}

/** The schedules of a namespace. Every method rejects with ConnectError `no_temporal` if the server does not answer. */
export interface Schedules {
  /**
   * Creates a schedule on the client's task queue.
   * @throws InvalidOptionError `invalid_option`; InvalidMessageError for a message, context or tags that no session accepts;
   * RequestRefusedError `schedule_exists`, `invalid_schedule` (the server cannot read its times), `never_due`.
   */
  create(schedule: NewSchedule): Promise<Schedule>
  /** The schedules, by id; a new one may be missing for a second. Each page reads the server's list of them. */
  list(options?: ScheduleListOptions): List<Schedule>
  /** One schedule. @throws RequestRefusedError `schedule_not_found`. */
  get(id: string): Promise<Schedule>
  /**
   * The times at which the schedule is due from `since` (default now) until `until` (default a year later): the first `limit` (default 100,
   * at most 1,000). @throws RequestRefusedError `schedule_not_found`; InvalidOptionError `invalid_option`.
   */
  times(id: string, options?: { since?: Date; until?: Date; limit?: number }): Promise<Date[]>
  /**
   * Lets it start nothing until `unpause`; what would have been due meanwhile is not made up for.
   * @throws RequestRefusedError `schedule_not_found`.
   */
  pause(id: string, options?: { by?: string; reason?: string }): Promise<void>
  /** Lets it continue with its next time. @throws RequestRefusedError `schedule_not_found`. */
  unpause(id: string, options?: { by?: string; reason?: string }): Promise<void>
  /**
   * Starts an occurrence now, also while it is paused. Two within one second count as one. `requestId` identifies the request (1 to 200
   * characters; default: a new UUID): one that is sent again because its answer was lost starts nothing more, as far as the server remembers
   * it, which forgets when the schedule has run for long.
   * @throws RequestRefusedError `schedule_not_found`.
   */
  trigger(id: string, options?: { requestId?: string }): Promise<void>
  /** Deletes it. Sessions and their messages stay. @throws RequestRefusedError `schedule_not_found`. */
  delete(id: string): Promise<void>
}

/** `<schedule>:<time>` is the id of a message or a session, which has at most 200 characters. */
const MAX_ID = 170
const DEFAULT_CATCH_UP_MS = 300_000
const YEAR_MS = 365 * 86_400_000

function isScheduleId(id: unknown): id is string {
  return isSessionId(id) && id.length <= MAX_ID
}

const areTexts = (value: unknown): boolean =>
  [value].flat().every((one) => typeof one === 'string' && one.trim() !== '' && one.length <= 200)
const nameOf = (agent: unknown): unknown => (typeof agent === 'object' ? (agent as { name?: unknown } | null)?.name : agent)
const A_CALENDAR = "an object such as { hour: 9, dayOfWeek: 'MONDAY' }, or a list of them"
const FIELDS = ['second', 'minute', 'hour', 'dayOfMonth', 'month', 'year', 'dayOfWeek']
const areCalendars = (value: unknown): boolean =>
  [value].flat().every((one) => isObject(one) && Object.keys(one).length > 0 && Object.keys(one).every((field) => FIELDS.includes(field)))

const NEW = options({
  id: where<string>(isScheduleId, `1 to ${MAX_ID} of [A-Za-z0-9._:/@-]`),
  agent: where<string | Agent>((agent) => isAgentName(nameOf(agent)), 'an agent, or its name: 1 to 100 of [A-Za-z0-9._-]'),
  message: z.unknown(),
  every: duration({ min: 1_000, max: YEAR_MS, limits: 'from one second to one year', example: '1h' }).optional(),
  cron: where<string | string[]>(areTexts, "a cron expression such as '0 9 * * MON-FRI', or a list of them").optional(),
  calendar: where<CalendarSpec | CalendarSpec[]>(areCalendars, A_CALENDAR).optional(),
  timeZone: ianaTimeZone().optional(),
  session: where<string>((id) => isSessionId(id), "'new', or a session's id").optional(),
  overlap: oneOf('queue', 'skip', 'interrupt').optional(),
  catchUp: duration({ min: 10_000, max: 10 * YEAR_MS, limits: 'from 10 seconds to 10 years', example: '5m' }).optional(),
  deadline: duration({ example: '5m' }).optional(),
  metadata: z.unknown().optional(),
  context: z.unknown().optional(),
  tags: z.unknown().optional(),
  paused: flag().optional(),
  by: text('text that says who creates it').optional(),
})
const ID = options({ id: where<string>(isScheduleId, 'the id of a schedule') })
const LISTING = options({ idPrefix: text('the beginning of schedule ids').optional(), ...PAGE })
const TRIGGER = options({ requestId })
const SAID = options({ by: text().optional(), reason: text().optional() })
const moment = where<Date>((value) => value instanceof Date && !Number.isNaN(value.getTime()), 'a Date')
const SPAN = options({ since: moment.optional(), until: moment.optional(), limit: integer(1, 1_000).optional() })

/** What a schedule's memo has: what lists show, without content. */
type Shown = Pick<Schedule, 'agent' | 'session' | 'overlap' | 'timeZone' | 'by'> & Times

export function schedulesOf({ client, taskQueue }: { client: Client; taskQueue: string }): Schedules {
  const idOf = (id: unknown): string => checkOptions(ID, { id }).id

  /** @throws RequestRefusedError `schedule_not_found`. */
  async function on<T>(id: string, work: (handle: ReturnType<Client['schedule']['getHandle']>) => Promise<T>): Promise<T> {
    try {
      return await onTemporal(client, () => work(client.schedule.getHandle(temporalIdOf(id))))
    } catch (cause) {
      if (!(cause instanceof ScheduleNotFoundError) && statusOf(cause) !== NOT_FOUND) throw cause
      const text = `There is no schedule ${JSON.stringify(id)}. List the schedules with \`${SUGGESTIONS.listSchedules()}\`.`
      throw new RequestRefusedError('schedule_not_found', text, { cause })
    }
  }

  /** The server lists schedules in no order that lasts from page to page, so all are read, and no more than two pages are kept. */
  async function readPage(idPrefix: string, limit: number, after: Key | undefined): Promise<Rows<Schedule>> {
    const begin = after === undefined ? '' : String(after[0])
    let page: Schedule[] = []
    const firstOnes = (): Schedule[] => page.sort((one, other) => (one.id < other.id ? -1 : 1)).slice(0, limit + 1)
    const query = `ScheduleId STARTS_WITH '${temporalIdOf(idPrefix).replaceAll("'", "''")}'`
    await onTemporal(client, async () => {
      for await (const summary of client.schedule.list({ query })) {
        const id = scheduleIn(summary.scheduleId)
        if (!id?.startsWith(idPrefix) || id <= begin) continue
        page.push(scheduleOf(id, summary))
        if (page.length > 2 * limit) page = firstOnes()
      }
    })
    const items = firstOnes()
    const last = items.length > limit ? items[limit - 1] : undefined
    return { items: items.slice(0, limit), ...(last && { next: [last.id] }) }
  }

  const get = (id: string): Promise<Schedule> => on(id, async (handle) => scheduleOf(id, await handle.describe()))

  return {
    async create(given) {
      const { id, start, shown, spec, catchUpMs, paused } = checkNew(given)
      const note = noteOf('created', { by: shown.by ?? undefined })
      const create = () =>
        client.schedule.create({
          scheduleId: temporalIdOf(id),
          spec,
          action: {
            type: 'startWorkflow',
            workflowType: OCCURRENCE_TYPE,
            workflowId: temporalIdOf(id),
            taskQueue,
            args: [start],
            workflowTaskTimeout: WORKFLOW_TASK_TIMEOUT_MS,
          },
          // Sessions decide what an overlap means, so the server starts every occurrence.
          policies: { overlap: 'ALLOW_ALL', catchupWindow: catchUpMs, pauseOnFailure: false },
          state: { paused, note },
          memo: { pawl: shown },
        })
      await onTemporal(client, create).catch((error: unknown) => {
        throw refusalOf(error, id)
      })
      const made = await get(id)
      if (made.next.length > 0 || paused) return made
      await on(id, (handle) => handle.delete())
      throw new RequestRefusedError(
        'never_due',
        `The schedule ${JSON.stringify(id)} would never be due, so it was not created. Check its times.`,
      )
    },
    list: (given = {}) =>
      listOf(() => {
        const { idPrefix = '', ...page } = checkOptions(LISTING, given)
        const { limit, cursor } = paging(defined(page))
        return { name: 'schedules', filter: { idPrefix }, cursor, read: (after) => readPage(idPrefix, limit, after) }
      }),
    get: async (id) => get(idOf(id)),
    async times(given, more = {}) {
      const id = idOf(given)
      const { since = new Date(), until = new Date(since.getTime() + YEAR_MS), limit = 100 } = checkOptions(SPAN, more)
      // The server also answers for a schedule that was deleted.
      await get(id)
      const { startTime } = await on(id, async () => {
        const span = { startTime: timestampOf(since), endTime: timestampOf(until) }
        const { namespace } = client.options
        return client.workflowService.listScheduleMatchingTimes({ namespace, scheduleId: temporalIdOf(id), ...span })
      })
      return startTime.slice(0, limit).map(({ seconds, nanos }) => new Date(Number(seconds ?? 0) * 1_000 + (nanos ?? 0) / 1e6))
    },
    async pause(id, more = {}) {
      const note = noteOf('paused', checkOptions(SAID, more))
      await on(idOf(id), (handle) => handle.pause(note))
    },
    async unpause(id, more = {}) {
      const note = noteOf('unpaused', checkOptions(SAID, more))
      await on(idOf(id), (handle) => handle.unpause(note))
    },
    async trigger(given, more = {}) {
      const id = idOf(given)
      const { requestId: once = randomUUID() } = checkOptions(TRIGGER, more)
      const { namespace, identity } = client.options
      // As `trigger` of a handle, which gives each request an id of its own.
      const request = { namespace, identity, scheduleId: temporalIdOf(id), patch: { triggerImmediately: {} }, requestId: once }
      await on(id, async () => void (await client.workflowService.patchSchedule(request)))
    },
    delete: async (id) => on(idOf(id), (handle) => handle.delete()),
  }
}

/** The parts of a new schedule. */
interface CheckedSchedule {
  id: string
  start: OccurrenceStart
  shown: Shown
  spec: ScheduleSpec
  catchUpMs: number
  paused: boolean
}

/** @throws InvalidOptionError `invalid_option`; InvalidMessageError. */
function checkNew(given: unknown): CheckedSchedule {
  const checked = checkOptions(NEW, given)
  const { id, message, every, cron, calendar, timeZone = 'UTC', overlap = 'queue', catchUp = DEFAULT_CATCH_UP_MS, deadline, by } = checked
  const { metadata, context, tags, paused = false } = checked
  if ([every, cron, calendar].filter((one) => one !== undefined).length !== 1)
    throw new InvalidOptionError('Pass one of `every`, `cron` and `calendar`.')
  const agent = nameOf(checked.agent) as string
  const session = checked.session === undefined || checked.session === 'new' ? null : checked.session
  checkContents({ content: message, metadata, context, tags })
  const times = defined({ every: (given as NewSchedule).every, cron, calendar })
  return {
    id,
    start: {
      schedule: id,
      agent,
      content: message as OccurrenceStart['content'],
      overlap,
      ...defined({
        session: session ?? undefined,
        metadata: metadata as JsonObject | undefined,
        deadlineMs: deadline,
        context: context as Json | undefined,
        tags: tags as string[] | undefined,
      }),
    },
    shown: { agent, session, overlap, timeZone, by: by ?? null, ...times } as Shown,
    spec: {
      timezone: timeZone,
      ...(every !== undefined && { intervals: [{ every }] }),
      ...(cron !== undefined && { cronExpressions: [cron].flat() }),
      ...(calendar !== undefined && { calendars: [calendar].flat() }),
    },
    catchUpMs: catchUp,
    paused,
  }
}

/** Checks what sessions would otherwise refuse at each occurrence. @throws InvalidMessageError with the refusal's code. */
function checkContents({ content, metadata, context, tags }: Record<'content' | 'metadata' | 'context' | 'tags', unknown>): void {
  const checked = checkMessage({ content, ...defined({ metadata }) })
  if ('refusal' in checked) throw new InvalidMessageError(checked.refusal.code, checked.refusal.reason)
  checkOpening(defined({ context, tags }))
  if (jsonBytes(content) <= BLOB_THRESHOLD_BYTES) return
  throw new InvalidMessageError(
    'message_too_large',
    `The message of a schedule has at most ${numberText(BLOB_THRESHOLD_BYTES)} bytes of JSON. Store it elsewhere and send a reference.`,
  )
}

function scheduleOf(id: string, { memo, state, info }: ScheduleDescription | ScheduleSummary): Schedule {
  const { agent = '', session = null, overlap = 'queue', timeZone = 'UTC', by = null, ...times } = (memo?.pawl ?? {}) as Partial<Shown>
  return {
    id,
    agent,
    session,
    overlap,
    ...times,
    timeZone,
    by,
    paused: state.paused,
    note: state.note === undefined || state.note === '' ? null : state.note,
    next: state.paused ? [] : info.nextActionTimes,
    recent: info.recentActions.map(({ scheduledAt, takenAt }) => ({ time: scheduledAt, startedAt: takenAt })),
  }
}

const noteOf = (what: string, { by, reason }: { by?: string | undefined; reason?: string | undefined }): string =>
  [what, by === undefined ? '' : ` by ${by}`, reason === undefined ? '' : `: ${reason}`].join('')

function timestampOf(time: Date): { seconds: never; nanos: number } {
  const ms = time.getTime()
  // The type is that of a library for 64-bit integers, in which numbers are accepted.
  return { seconds: Math.floor(ms / 1_000) as never, nanos: (ms % 1_000) * 1e6 }
}

/** gRPC's status codes for an invalid request and for something that does not exist. */
const INVALID_ARGUMENT = 3
const NOT_FOUND = 5

function statusOf(error: unknown): number | undefined {
  if (isGrpcServiceError(error)) return error.code
  return error instanceof ServiceError ? statusOf(error.cause) : undefined
}

function refusalOf(error: unknown, id: string): unknown {
  if (error instanceof ScheduleAlreadyRunning) {
    const text = `There is a schedule ${JSON.stringify(id)} already. Delete it first, or choose another id.`
    return new RequestRefusedError('schedule_exists', text, { cause: error })
  }
  if (error instanceof TypeError || error instanceof RangeError || statusOf(error) === INVALID_ARGUMENT) {
    const { cause, message } = error as Error
    const why = isGrpcServiceError(cause) ? cause.details : message
    return new RequestRefusedError('invalid_schedule', `The server cannot read the times of the schedule: ${why}. Correct them.`, {
      cause: error,
    })
  }
  return error
}
