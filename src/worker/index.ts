// `pawl/worker`: what serves agents.
export { ConnectError } from '../connect/temporal.ts'
export type { TemporalAddress } from '../connect/temporal.ts'
export { createWorker, runWorker } from './create-worker.ts'
export { defineWorker } from './definition.ts'
export type { WorkerDefinition } from './definition.ts'
export { WorkerError } from './errors.ts'
export type {
  CreateWorkerOptions,
  HeldCall,
  PawlWorker,
  SuperviseOptions,
  Supervisor,
  SupervisorEvent,
} from './options.ts'
export { superviseWorkers } from './supervisor.ts'
