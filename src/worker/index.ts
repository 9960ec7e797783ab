// `pawl/worker`: workers, which serve agents.
export type { TemporalAddress } from '../connect/temporal.ts'
export { ConnectError } from '../connect/errors.ts'
export { InvalidOption } from '../options/errors.ts'
export { defineWorker } from './definition.ts'
export type { Serving, ServicesOption, WorkerDefinition } from './definition.ts'
export { WorkerError } from './errors.ts'
export { createWorker, runWorker } from './one-process/index.ts'
export type {
  CreateWorkerOptions,
  HeldCall,
  PawlWorker,
  SuperviseOptions,
  Supervisor,
  SupervisorEvent,
  TelemetryOptions,
} from './options.ts'
export { superviseWorkers } from './parent/supervise.ts'
export type {
  CheckedSession,
  PreflightOptions,
  PreflightProblem,
  PreflightReport,
  PreflightWarning,
  StoreCheck,
  WarningSum,
} from './preflight-report.ts'
export { preflight } from './preflight/index.ts'
export type { Agent } from '../agent/agent.ts'
export type { AnyServices, Logger, NeedsServices, ServicesOf, ToolNeeds } from '../agent/tool.ts'
export type { Duration } from '../session/duration.ts'
export { PawlError } from '../session/errors.ts'
