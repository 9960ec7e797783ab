// What a deployment's examination reports.
import type { Json } from '../../session/json.ts'

/** How bad a finding is: `fail` means that sessions stand still, or that data is not stored. */
export type HealthLevel = 'ok' | 'warn' | 'fail'

/** One finding. */
export interface HealthCheck {
  /** What was examined, such as `clocks`. */
  check: string
  /** How bad it is. */
  level: HealthLevel
  /** What was measured, for people. */
  measured: string
  /** What to do: one sentence or two; absent: nothing. */
  advice?: string
  /** The figures, for programs. */
  details?: Json
}

/** All findings. */
export interface HealthReport {
  /** Whether no check failed. */
  ok: boolean
  /** The checks, in the order of their dependence: what could not be examined, because something before it failed, is missing. */
  checks: HealthCheck[]
}

/** How a finding is worded. */
export type Finding = Pick<HealthCheck, 'measured' | 'advice' | 'details'>

/** Nothing to do. */
export function ok(check: string, finding: Finding): HealthCheck {
  return { check, level: 'ok', ...finding }
}

/** A person should look. */
export function warn(check: string, finding: Finding): HealthCheck {
  return { check, level: 'warn', ...finding }
}

/** Sessions stand still, or data is not stored. */
export function fail(check: string, finding: Finding): HealthCheck {
  return { check, level: 'fail', ...finding }
}
