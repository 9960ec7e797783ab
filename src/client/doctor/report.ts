// The report of a deployment's examination.
import type { Json } from '../../session/json.ts'

/** The severity of a finding. `warn`: a person should look. `fail`: sessions are stuck, or data is not being stored. */
export type HealthLevel = 'ok' | 'warn' | 'fail'

/** One finding. */
export interface HealthCheck {
  /** What was examined, such as `clocks`. */
  check: string
  /** The severity. */
  level: HealthLevel
  /** What was measured, as text for people. */
  measured: string
  /** What to do, in one or two sentences; absent if nothing needs to be done. */
  advice?: string
  /** The measurements, as data for programs. */
  details?: Json
}

/** All findings. */
export interface HealthReport {
  /** Whether no check failed. */
  ok: boolean
  /** The checks, each after those that it depends on. */
  checks: HealthCheck[]
  /** The checks that were impossible, because a server did not answer or does not report what they need. */
  notExamined: string[]
}

/** The content of a finding. */
export type Finding = Pick<HealthCheck, 'measured' | 'advice' | 'details'>

/** A finding that needs no action. */
export function ok(check: string, finding: Finding): HealthCheck {
  return { check, level: 'ok', ...finding }
}

/** A finding that a person should look at. */
export function warn(check: string, finding: Finding): HealthCheck {
  return { check, level: 'warn', ...finding }
}

/** A finding that sessions are stuck, or that data is not being stored. */
export function fail(check: string, finding: Finding): HealthCheck {
  return { check, level: 'fail', ...finding }
}
