// `pawl/worker`: workers, which serve agents.
export type { TemporalAddress } from '../connect/temporal.ts'
export { ConnectError } from '../connect/errors.ts'
export { defineWorker } from './definition.ts'
export type { WorkerDefinition } from './definition.ts'
export { WorkerError } from './errors.ts'
export { createWorker, runWorker } from './one-process/index.ts'
export type {
  CreateWorkerOptions,
  HeldCall,
  PawlWorker,
  SuperviseOptions,
  Supervisor,
  SupervisorEvent,
} from './options.ts'
export { superviseWorkers } from './parent/supervise.ts'
