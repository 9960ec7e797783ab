// Checks the options of workers, supervisors and preflights before anything starts.
import { availableParallelism } from 'node:os'
import type { DataConverter } from '@temporalio/common'
import type { WorkerInterceptors } from '@temporalio/worker/lib/interceptors.js'
import { z } from 'zod'
import type { Logger } from '../agent/tool.ts'
import { checkOptions, duration, flag, fn, integer, options, signal, text, where } from '../options/check.ts'
import { DEPLOYMENT, logger, postgres, TEMPORAL_ADDRESS, isDataConverter } from '../options/shared.ts'
import type { CreateWorkerOptions, SuperviseOptions, SupervisorEvent } from './options.ts'
import type { CheckedSession, PreflightOptions } from './preflight-report.ts'

const DEFAULT_PROCESSES = 2
const DEFAULT_LOAD_MS = 60_000
export const DEFAULT_STUCK_LOOP_MS = 60_000
/**
 * The workflow counts an attempt as lost two minutes after its timeout. A stuck executor must be dead by then, so the limit leaves time for
 * a grace period and a few checks of the watch.
 */
const MAX_STUCK_LOOP_MS = 110_000

/** `openLogger` checks the names. */
const REDACT = where<readonly string[]>(
  (value) => Array.isArray(value) && value.every((name) => typeof name === 'string'),
  "a list of names, such as ['email', 'customer.phone']",
).optional()

const TELEMETRY = z
  .union([
    z.literal(false),
    options({
      contents: flag().optional(),
      prometheus: options({ port: integer(1, 65_535).optional(), host: text('an address of this machine').optional() }).optional(),
    }),
  ])
  .optional()

const A_CONVERTER = 'a DataConverter { payloadConverterPath?, failureConverterPath?, payloadCodecs? }'
const INTERCEPTORS = "an object with lists of interceptors of Temporal's worker, such as { activity: [ … ] }"

function areInterceptors(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  const { activity, activityInbound, nexus, workflowModules } = value as Record<string, unknown>
  return [activity, activityInbound, nexus, workflowModules].every((list) => list == null || Array.isArray(list))
}

function isPath(value: unknown): boolean {
  return typeof value === 'string' && value.trim() !== ''
}

const DEFAULT_HEAL_MS = 120_000
const HEAL_AFTER = z.union([z.literal(false), duration({ example: '2m' })]).optional()

const SUPERVISE = options({
  module: text('the path of the module that exports your agents'),
  processes: integer(1, 64).default(DEFAULT_PROCESSES),
  executorMemory: integer(32, 1_000_000).optional(),
  temporal: TEMPORAL_ADDRESS.optional(),
  ...DEPLOYMENT,
  postgres: where<string>((value) => typeof value === 'string', 'a URL such as postgres://user@host/database').optional(),
  dataConverter: text('the path of a module that exports a dataConverter').optional(),
  interceptors: text('the path of a module that exports interceptors').optional(),
  stuckLoop: duration({
    max: MAX_STUCK_LOOP_MS,
    limits:
      "above 0 and at most '110s': a stuck executor must be killed before its sessions give up on its calls and verify or repeat them, " +
      'two minutes after their timeouts',
  }).optional(),
  healAfter: HEAL_AFTER,
  loadTimeout: duration({ example: '60s' }).optional(),
  spare: flag().optional(),
  onFile: fn<(path: string) => void>().optional(),
  logger: logger<Logger>().optional(),
  redact: REDACT,
  telemetry: TELEMETRY,
  onEvent: fn<(event: SupervisorEvent) => void>().optional(),
})

/** A supervisor's options, completed with defaults. */
export interface CheckedSuperviseOptions extends Omit<SuperviseOptions, 'processes' | 'stuckLoop' | 'healAfter' | 'loadTimeout'> {
  processes: number
  stuckLoopMs: number
  healAfterMs: number | false
  loadTimeoutMs: number
}

/** Completes a supervisor's options. @throws InvalidOptionError. */
export function checkSupervise(given: SuperviseOptions): CheckedSuperviseOptions {
  const checked = checkOptions(SUPERVISE, given)
  const { stuckLoop = DEFAULT_STUCK_LOOP_MS, healAfter = DEFAULT_HEAL_MS, loadTimeout = DEFAULT_LOAD_MS, processes, ...more } = checked
  const times = { stuckLoopMs: stuckLoop, healAfterMs: healAfter, loadTimeoutMs: loadTimeout }
  return { ...(more as Omit<SuperviseOptions, 'processes'>), processes, ...times }
}

const CREATE = options({
  agents: z.unknown().optional(),
  services: z.unknown().optional(),
  temporal: TEMPORAL_ADDRESS.optional(),
  connection: where<object>((value) => typeof value === 'object' && value !== null, 'a NativeConnection').optional(),
  namespace: text("a namespace's name").optional(),
  ...DEPLOYMENT,
  postgres: postgres<NonNullable<CreateWorkerOptions['postgres']>>().optional(),
  dataConverter: where<DataConverter>(isDataConverter, A_CONVERTER).optional(),
  interceptors: where<WorkerInterceptors>(areInterceptors, INTERCEPTORS).optional(),
  tuner: where<NonNullable<CreateWorkerOptions['tuner']>>(
    (value) => typeof value === 'object' && value !== null,
    "a tuner of Temporal's worker",
  ).optional(),
  logger: logger<Logger>().optional(),
  redact: REDACT,
  healAfter: HEAL_AFTER,
  telemetry: TELEMETRY,
})

/** Checks a worker's options, and returns its times; its agents are checked by `defineWorker`. @throws InvalidOptionError. */
export function checkCreate(given: CreateWorkerOptions): { healAfterMs: number | false } {
  const { healAfter: healAfterMs = DEFAULT_HEAL_MS } = checkOptions(CREATE, given)
  return { healAfterMs }
}

/** A history can be as large as 50 MB. */
const REPLAYS_AT_ONCE = 4
const MAX_CONCURRENT_REPLAYS = 32

const PREFLIGHT = options({
  module: text('the path of the module that exports your agents').optional(),
  temporal: TEMPORAL_ADDRESS.optional(),
  taskQueue: DEPLOYMENT.taskQueue,
  postgres: SUPERVISE.shape.postgres,
  schema: DEPLOYMENT.schema,
  dataConverter: where<DataConverter | string>(
    (value) => isPath(value) || isDataConverter(value),
    `the path of a module, or ${A_CONVERTER}`,
  ).optional(),
  interceptors: where<WorkerInterceptors | string>(
    (value) => isPath(value) || areInterceptors(value),
    `the path of a module, or ${INTERCEPTORS}`,
  ).optional(),
  sample: integer(1).optional(),
  concurrency: integer(1, MAX_CONCURRENT_REPLAYS).optional(),
  loadTimeout: duration({ example: '60s' }).optional(),
  onSession: fn<(session: CheckedSession) => void>().optional(),
  signal: signal().optional(),
})

/** A preflight's options, completed with defaults. */
export interface CheckedPreflightOptions extends Omit<PreflightOptions, 'concurrency' | 'loadTimeout'> {
  concurrency: number
  loadTimeoutMs: number
}

/** Completes a preflight's options. @throws InvalidOptionError. */
export function checkPreflight(given: PreflightOptions): CheckedPreflightOptions {
  const { concurrency, loadTimeout: loadTimeoutMs = DEFAULT_LOAD_MS, ...more } = checkOptions(PREFLIGHT, given)
  return {
    ...(more as Omit<PreflightOptions, 'concurrency' | 'loadTimeout'>),
    concurrency: concurrency ?? Math.min(availableParallelism(), REPLAYS_AT_ONCE),
    loadTimeoutMs,
  }
}
